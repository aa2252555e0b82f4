"""Labels that people, benchmarks or models give to pictures; models are tuned on them and evaluated with them.

One table for all of them (`table.py`); importers of public benchmarks, consensus and exports produce and use it.
May import: `ingest`.
Start at: `table.py`; `picture_index.py` says which label is of which picture.
"""
