"""What `takedown` does: read what its list names, find these pictures, and write the release without them.

May import: `ingest`, `scoring`, `jobs.console`, `jobs.filter`, `jobs.runtime`.
Start at: `command.py`.
"""
