"""`tune-set`: pictures and labels become a training set for `tune`.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `command.py`.
"""
