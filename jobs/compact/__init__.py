"""What `compact` does: few large result files instead of many small ones.

May import: `ingest`, `scoring`, `jobs.console`.
Start at: `command.py`.
"""
