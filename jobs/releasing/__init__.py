"""What `filter` does: decisions, copies, the record of a release. Start at `decisions.py`."""
