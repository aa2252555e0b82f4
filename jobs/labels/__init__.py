"""What `privsieve labels` does: each command is a function of `run.py`, `build` of `building.py`,
`benchmark.py` and `dialogues.py`, `clean` of `building.py`.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.fetch`, `jobs.runtime`, `jobs.screen`,
`jobs.tune_set`.
Start at: `run.py`.
"""
