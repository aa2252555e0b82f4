"""Plans: what a small sample of a corpus measures, and what follows from it for all.

planning.py     `run_plan`: the engine, or a recorded speed where it cannot run; then the next two
measuring.py    a small random sample of a corpus is read, decoded and scored here
arithmetic.py   measurements -> figures with ranges

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.scanning`.
Start at: `planning.py`.
"""
