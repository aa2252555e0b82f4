"""Studies: what tuning brings, and what other words change. Every figure is measured through a scan.

A study is a folder of points. A point is one model, tuned or not, that has scanned the evaluation pictures; a finished
point is not made again.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.labelling`, `jobs.reporting`, `jobs.runtime`,
`jobs.scanning`, `jobs.tuning`.
Start at: `points.py`.
"""
