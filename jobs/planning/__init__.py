"""Plans: what a scan will take, from its first seconds.

planning.py     `run_plan`: a scan of at most half a minute, and what follows from it for the whole source
measuring.py    the scan, and the images of a few shards

May import: `ingest`, `scoring`, `reports.statistics`, `jobs.console`, `jobs.runtime`, `jobs.scanning`.
Start at: `planning.py`.
"""
