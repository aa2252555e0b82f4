"""What `diff` does; `reports.comparing_runs` makes every figure.

Start at: `run.py`.
"""
