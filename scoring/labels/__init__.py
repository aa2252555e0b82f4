"""What people, benchmarks or several models say about pictures: the labels that models are tuned on and judged by.

One table for all of them (`table.py`); importers of public benchmarks, consensus and exports give and take it.
May import: `ingest`.
Start at: `table.py`.
"""
