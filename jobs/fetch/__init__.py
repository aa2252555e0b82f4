"""What `privsieve fetch` does: which rows, the environment of img2dataset, the download, what came of it.

run.py          `run_fetch`: the steps in order
columns.py      how metadata names its columns, as data
selection.py    metadata files -> the selected rows
selected.py     the folder of the selected rows next to the shards, and its settings
retrying.py     the rows that --retry-failed asks again
environment.py  the environment that holds img2dataset; pins.txt
download.py     starts the program and follows it
program.py      what runs in that environment, with limits of size and time
outcome.py      img2dataset's rows -> fetch.parquet, reconciled

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
"""
