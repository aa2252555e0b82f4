"""What `calibrate` does: labels and a run are read, and `reports.calibrating` makes the figures and the thresholds.

Start at: `run.py`.
"""
