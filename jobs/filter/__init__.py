"""What `filter` does: decisions, copies, the record of a release.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.fetch`.
Start at: `run.py`.
"""
