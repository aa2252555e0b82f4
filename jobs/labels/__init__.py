"""What `privsieve labels` does: each command is a function here, a frozen request in, a frozen result out.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.fetch`, `jobs.runtime`.
Start at: `importing.py`.
"""
