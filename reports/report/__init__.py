"""What a report says, as frozen data: figures, how sure they are, what they touch in law, and how they were made.

May import: `ingest`, `scoring`, `reports.audit`, `reports.labels`, `reports.page`, `reports.run`.
Start at: `results.py` for all of it, `figures.py` for its parts; `words.py` says it in words.
"""
