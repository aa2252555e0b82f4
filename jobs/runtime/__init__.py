"""The processes and machines that commands run on: Ray, progress; and the pictures of a run, read again and compared
with a hash list.

May import: `ingest`, `scoring`, `reports`, `jobs.console`.
Start at: `cluster.py`.
"""
