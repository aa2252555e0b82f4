"""`audit`: a random sample of a run for people to label, and the rates of the run corrected by their labels.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.labels`, `jobs.report`, `jobs.runtime`.
Start at: `run.py`.
"""
