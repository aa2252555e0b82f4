"""What `diff` does; `reports.diff` makes every figure.

Start at: `run.py`.
"""
