"""What `privsieve labels` does: each command is a function of `run.py` or `building.py`, `build dialogues` of
`dialogues.py`, `same-tags` of `same_tags.py`; `command.py` declares and prints them.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.fetch`, `jobs.runtime`, `jobs.screen`,
`jobs.tune_set`.
Start at: `run.py`.
"""
