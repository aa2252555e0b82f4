"""What `scan` does on Ray. Start at `pipeline.py`."""
