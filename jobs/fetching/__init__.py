"""Tables of URLs, and the download of their pictures: rows, the environment of img2dataset, what came of it.

url_tables.py  metadata files -> the selected rows, with normalised names; releases of URLs read them, too
fetching.py    `run_fetch`: the steps in order, and the folder of the selected rows
download.py    the environment that holds img2dataset (pins.txt); starts the program there and follows it
program.py     what runs in that environment, with limits of size and time
outcome.py     img2dataset's rows -> fetch.parquet, one for each URL

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `fetching.py`.
"""
