"""The page of `verify --contact-sheet`: pictures before and after they were covered, side by side.

    page.py   what the page shows, and the page

May import: `ingest`.
Start at: `page.py`.
"""
