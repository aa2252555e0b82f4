"""What `privsieve labels` does: each command is a function of `run.py`, `build` of `building.py`, `clean`
of `cleaning.py`.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.fetch`, `jobs.runtime`, `jobs.screen`.
Start at: `run.py`.
"""
