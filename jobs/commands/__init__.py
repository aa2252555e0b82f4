"""The commands, a file each: options, one call, and the lines that are printed. No command imports another.

May import: `ingest`, `scoring`, `reports`, `jobs`.
Start at: `scan.py`; `explain.py` is a small one to copy.
"""
