"""Labels are imported, joined, compared and built; audits correct rates by them.

labels.py      the commands of `labels`; building.py, dialogues.py and same_tags.py make sets of pictures to label
auditing.py    a sample is drawn, its labels are applied

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.fetching`, `jobs.reporting`, `jobs.runtime`,
`jobs.screening`, `jobs.tuning`.
Start at: `labels.py`.
"""
