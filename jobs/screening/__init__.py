"""Screens: a cheap first stage is fitted on labels of a corpus.

request.py    what is asked
fitting.py    the labelled pictures of a corpus and their features; fit

How a scan uses a screen is in `jobs/scanning/`.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.scanning`.
Start at: `fitting.py`.
"""
