"""What `privsieve fetch` does: which rows, the environment of img2dataset, the download, what came of it.

command.py     `run_fetch`: the steps in order
selection.py   metadata files -> the selected rows, with normalised names
selected.py    the folder of the selected rows next to the shards, and the rows that --retry-failed asks again
download.py    the environment that holds img2dataset (pins.txt); starts the program there and follows it
program.py     what runs in that environment, with limits of size and time
outcome.py     img2dataset's rows -> fetch.parquet, reconciled

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
"""
