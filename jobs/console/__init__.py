"""What commands read from the command line and write to a terminal.

May import: `ingest`, `scoring`, `reports`.
Start at: `requests.py` for the options that commands share, `terminal.py` for output.
"""
