"""The run folder: every file of it is written and read here, and nowhere else.

May import: `ingest`, `scoring.screen`, `scoring.sql`.
Start at: `layout.py` for the names, `record.py` for run.json, `ledger.py` for the finished slices.
"""
