"""Screens: a cheap first stage is fitted on labels of a corpus, and judged by others.

request.py    what is asked
fitting.py    the labelled pictures of a corpus and their features; fit and evaluate

How a scan uses a screen is in `jobs/scanning/`.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.scanning`.
Start at: `fitting.py`.
"""
