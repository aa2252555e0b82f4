"""Rates of a run corrected by labels of a random sample of it. Pure numpy and DuckDB; commands are in `jobs`.

May import: `ingest`, `scoring`, `reports.labels`, `reports.run`, `reports.statistics`.
Start at: `cells.py` for what is counted, `estimates.py`
for the statistics, `stored.py` for the corrected rates that a run has already.
"""
