"""Studies of tuning, and of models that are asked again in other words: the work of `study`. Every figure is measured through a scan, never inside the trainer.

A study is a folder of points. A point is one model, tuned or not, that has scanned the evaluation pictures; a finished
point is not made again.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.scan`, `jobs.tune`, `jobs.tune_set`.
Start at: `points.py`.
"""
