"""What `privsieve labels` does: each command is a function of `run.py`, `build` of `building.py`.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.fetch`, `jobs.runtime`.
Start at: `run.py`.
"""
