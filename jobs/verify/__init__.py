"""What `verify` does: a release is compared with its records, and examined again by another engine on demand.

checking.py   files, counts, pictures, tombstones and the signature
rescan.py     what an engine finds in the released pictures
command.py    options and output

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.filter`, `jobs.runtime`, `jobs.scan`.
Start at: `checking.py`.
"""
