"""A run as DuckDB sees it: its files, views and locked connection, and which images its figures describe.

May import: `ingest`, `scoring`, `reports.statistics`.
Start at: `warehouse.py`; `queries/` has the questions.
"""
