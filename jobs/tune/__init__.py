"""`tune`: a training set becomes an adapter of a model.

May import: `ingest`, `scoring`, `jobs.console`, `jobs.runtime`.
Start at: `command.py`.
"""
