"""`tune`: a training set becomes an adapter of a model.

May import everything to the left, and `jobs.runtime`. Start at: `run.py`.
"""
