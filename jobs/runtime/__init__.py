"""The processes and machines that commands run on: Ray, progress, the hash of the source files.

May import: `ingest`, `scoring`, `reports`, `jobs.console`.
Start at: `cluster.py`.
"""
