"""What `compact` does: few large result files instead of many small ones.

Start at: `run.py`.
"""
