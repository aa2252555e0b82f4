"""Rates of a run corrected by labels of a random sample of it. Pure numpy and DuckDB; commands are in `jobs`.

May import: `ingest`, `scoring`, `reports.labels`, `reports.run`, `reports.statistics`.
Start at: `compute.py`; `cells.py` for what is counted. The estimators are in `reports.statistics`. How a
corrected rate comes about, step by step: CONTRIBUTING.md, "The life of a corrected rate".
"""
