"""What `browse` does: a page on this machine that shows the pictures of a run by filters, and exports what it shows.

    browsing.py   what is asked for, and the server from start to end
    server.py     addresses of the page, what policies decide for the rows, and the export as CSV
    page/         HTML, CSS and JavaScript

Rows, filters and counts are in `reports/report/browsed_rows.py`. Nothing is written.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.releases`, `jobs.runtime`, `jobs.serving`.
Start at: `browsing.py`.
"""
