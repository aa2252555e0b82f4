"""The command `screen`: a cheap first stage is fitted on labels of a corpus, and judged by others.

request.py    what is asked
run.py        the labelled pictures of a corpus and their features; fit and evaluate
command.py    options and output

How a scan uses a screen is in `jobs/scan/`.

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.scan`.
Start at: `run.py`.
"""
