"""The processes and machines that commands run on: Ray, progress, metrics, the hash of the source files.

Start at: `cluster.py`.
"""
