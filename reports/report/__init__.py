"""A report as frozen data: figures, how sure they are, the rules of law that they touch, and how they were made.

May import: `ingest`, `scoring`, `reports.audit`, `reports.labels`, `reports.run`, `reports.statistics`.
Start at: `results.py` for what is said, `compute.py` for how it is asked; `words.py` says it in words.
Corrected rates are read, not computed here: `audit apply` stored them; see `reports/audit/__init__.py`.
"""
