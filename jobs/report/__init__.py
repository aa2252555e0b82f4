"""What a report takes from outside of the run: pictures of the source, what the user knows of it, a language model.

Start at: `run.py`.
"""
