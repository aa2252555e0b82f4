"""Labels are imported, joined and compared; audits correct rates by them.

labels.py      the commands of `labels`
auditing.py    a sample is drawn, its labels are applied

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.reporting`, `jobs.runtime`.
Start at: `labels.py`.
"""
