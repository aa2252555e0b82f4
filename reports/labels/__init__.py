"""Joins labels of people with the rows of a run, and finds what several people agree on.

May import: `ingest`, `scoring`, `reports.statistics`.
Start at: `joining.py`.
"""
