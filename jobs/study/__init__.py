"""Studies of tuning: the work of `study`. Every figure is measured through a scan, never inside the trainer.

A study is a folder of points. A point is one model, tuned or not, that has scanned the evaluation pictures; a finished
point is not made again. May import everything to the left, `jobs.tune`, `jobs.scan` and `jobs.runtime`.
Start at: `points.py`.
"""
