"""Rules that decide keep, flag, redact or drop, and the policies that are shipped as YAML.

May import: `ingest`, `scoring.sql`.
Start at: `policy.py`; `policy_file.py` reads it.
"""
