"""`tune-set`: pictures and labels become a training set for `tune`.

May import everything to the left, and `jobs.runtime`. Start at: `run.py`.
"""
