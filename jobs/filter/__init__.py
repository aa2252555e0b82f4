"""What `filter` does: decisions, copies, the record of a release.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `run.py`.
"""
