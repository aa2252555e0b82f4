"""Rates of a run corrected by labels of a random sample of it. Pure numpy and DuckDB; commands are in `jobs`.

May import: `ingest`, `scoring`, `reports.labels`, `reports.run`, `reports.statistics`.
Start at: `compute.py`; `cells.py` for what is counted. The estimators are in `reports.statistics`.

How a corrected rate comes about: every scored row is in one cell per subject, by what the run says of it (`cells.py`).
A sample is drawn more densely from cells that often err (`drawing.py`), and people label it. Each label counts as many
rows as 1 / its inclusion probability. `reports/statistics/estimates.py` adds, to the rate that the run claims, the
weighted mean of what labels say beyond it, cell by cell, and takes the interval from the variance of the draw;
`compute.py` does so for each subject and category, `scoring/runs/corrected_rates.py` stores the result, and reports
show it.
"""
