"""Rates of a run corrected by labels of a random sample of it. Pure numpy and DuckDB; commands are in `jobs`.

May import: `ingest`, `scoring`, `reports.labels`, `reports.run`, `reports.statistics`.
Start at: `compute.py`; `cells.py` for what is counted. The estimators are in `reports.statistics`.

How a rate is corrected: each scored row is in one cell per subject, by the run's answer (`cells.py`). A sample is drawn
more densely from cells that often err (`drawing.py`), and people label it. Each label counts as many rows as 1 / its
inclusion probability. `reports/statistics/estimates.py` takes the rate that the run claims and adds, cell by cell, the
weighted mean of the labels minus the claim. The interval follows from the variance of the draw. `fitting.py` gives it
the labels by cell, and `population.py` turns the rates of a run that is a sample into those of its source. `compute.py`
asks for each subject; `scoring/runs/audit_files.py` stores the result, and reports show it.
"""
