"""What text says of private things: names, numbers, addresses and fields of documents, by patterns and word lists.

May import: nothing of other folders.
Start at: `patterns.py`; `data/` has the word lists.
"""
