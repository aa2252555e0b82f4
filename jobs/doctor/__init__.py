"""What `privsieve doctor` checks, one file for each group of checks.

run.py         `run_doctor`: all checks in order
findings.py    what a check found
machine.py     Python, packages, memory, disk
gpus.py        GPUs and their driver
ray_start.py   Ray, and the list of executors
engines.py     the engine, its adapter, its endpoint
storage.py     the source and the run
processes.py   Python in a process of its own

A check returns what it found, or raises the error that the scan itself would raise. Whatever could hang or crash (Ray,
torch, the driver) is started in a process of its own. Nothing is left behind.
"""
