"""What `privsieve doctor` checks.

command.py   `run_doctor`: all checks in order; Ray and the engine
checks.py    what a check finds; Python, packages, memory, disk, GPUs; the source and the run

A check returns what it found, or raises the error that the scan itself would raise. Whatever could hang or crash (Ray,
torch, the driver) is started in a process of its own. Nothing is left behind.

May import: `ingest`, `scoring`, `jobs.console`, `jobs.runtime`.
"""
