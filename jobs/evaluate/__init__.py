"""What `evaluate` does: labels and runs are read, and every figure is made by `reports.evaluation`.

Start at: `run.py`.
"""
