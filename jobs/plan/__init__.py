"""What `privsieve plan` measures, and what it works out from that.

command.py      `run_plan`: the engine, or a recorded speed where it cannot run; then the next two
measuring.py    a small random sample of a corpus is read, decoded and scored here
arithmetic.py   measurements -> figures with ranges

May import: `ingest`, `reports`, `scoring`, `jobs.console`, `jobs.runtime`, `jobs.scan`.
"""
