"""What a report takes from outside of the run: pictures of the source, what the user knows of it, a language model.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `run.py`.
"""
