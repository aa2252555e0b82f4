"""Compares two runs, picture by picture.

Rows are loaded into a DuckDB database that spills to a temporary folder, so that runs larger than the memory can be
compared. Start at: `compute.py`.

May import: `ingest`, `scoring`, `reports.evaluation`, `reports.report`, `reports.statistics`.
"""
