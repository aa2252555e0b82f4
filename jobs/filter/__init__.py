"""What `filter` does: decisions, copies, the record of a release.

Start at: `run.py`.
"""
