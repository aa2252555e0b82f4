"""Room 3 of 4: what the scores say.

What lives here: runs in DuckDB, with one SQL file per question; statistics; reports, as text and as HTML pages.
May import: `ingest` and `scoring`. Neither Ray nor engines, and never `jobs`.
Start at: `report/opened.py` for what a program asks a run, `run/warehouse.py` for how it is opened and locked,
`run/queries/` for the questions. `report/`, `audit/`, `evaluation/`, `calibration/` and `diff/` have the same files:
`results.py` (what is said, as data), `compute.py` (how it comes about), `words.py` (how it is said). A page is filled
by `page.py` in `report/` and `evaluation/`, by `words.py` in `diff/` and `similarity/`.
"""
