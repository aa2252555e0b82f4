"""Making training sets and tuned models: the work of `tune-set` and `tune`.

May import everything to the left, and `jobs.runtime`. Start at: `set_making.py` (a training set),
`tuning.py` (an adapter).
"""
