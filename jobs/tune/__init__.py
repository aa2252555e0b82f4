"""`tune`: a training set becomes an adapter of a model.

May import: `ingest`, `reports`, `scoring`, `jobs.console`, `jobs.runtime`.
Start at: `command.py`.
"""
