"""Two runs, picture by picture: what one of them says that the other does not.

Rows are loaded into a DuckDB database that spills to a temporary folder, so that runs larger than the memory can be
compared. Start at: `compute.py`.

May import: `ingest`, `scoring`, `reports.evaluation`, `reports.page`, `reports.report`, `reports.statistics`.
"""
