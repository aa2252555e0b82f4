"""People's labels next to the rows of a run: which label is of which picture, and what several people agree on.

May import: `ingest`, `scoring`, `reports.statistics`.
Start at: `joining.py`.
"""
