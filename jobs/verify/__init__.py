"""What `verify` does: a release is compared with its records. On demand another engine examines it, or people see
what was covered.

request.py         what is asked
checking.py        files, counts, pictures, tombstones and the signature
rescan.py          what an engine finds in the released pictures
contact_sheet.py   a page with covered pictures before and after
command.py         options and output

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.filter`, `jobs.report`, `jobs.runtime`, `jobs.scan`.
Start at: `checking.py`.
"""
