"""Room 3 of 4: what the scores say.

What lives here: DuckDB over score tables: views, one SQL file per question, a summary, one HTML page.
May import: `ingest` and `scoring`. Neither Ray nor engines, and never `jobs`.
Start at: `opened.py` for what a program asks a run, `warehouse.py` for how it is opened and locked, `queries/` for the
questions, `report/compute.py` for what is asked for a report, `report/` for what it says.
"""
