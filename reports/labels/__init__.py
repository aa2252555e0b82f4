"""People's labels next to the rows of a run: joined, and what several people agree on.

May import: `ingest`, `scoring`, `reports.statistics`.
Start at: `joining.py`.
"""
