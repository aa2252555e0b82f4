"""What a report takes from outside of the run: pictures of the source, what the user knows of it, a language model.

`explaining.py` is the work of `explain`. Start at: `run.py`.
"""
