"""What the verb `fetch` is made of: which rows, the environment of img2dataset, the download, what became of it.

columns.py      how metadata names its columns, as data
selection.py    metadata files -> the selected rows beside the shards
environment.py  the environment that holds img2dataset; pins.txt
program.py      what runs in that environment, bounded
outcome.py      img2dataset's rows -> fetch.parquet, reconciled
"""
