"""What `takedown` does: what its list names, which pictures these are, and the release without them.

May import: `ingest`, `scoring`, `jobs.console`, `jobs.filter`, `jobs.runtime`.
Start at: `run.py`.
"""
