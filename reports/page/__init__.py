"""HTML pages that need no other file: one environment of templates, one style, one writer.

May import: `ingest`.
Start at: `pages.py`. What a page says, and its template, are where its figures are made.
"""
