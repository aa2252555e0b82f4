"""The download of the pictures of a table of URLs: rows, the environment of img2dataset, what came of it.

fetching.py    `run_fetch`: the steps in order, and the folder of the selected rows
download.py    the environment that holds img2dataset (pins.txt); starts the program there and follows it
program.py     what runs in that environment, with limits of size and time
outcome.py     img2dataset's rows -> fetch.parquet, one for each URL

May import: `ingest`, `scoring`, `jobs.console`, `jobs.runtime`.
Start at: `fetching.py`.
"""
