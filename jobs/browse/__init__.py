"""What `browse` does: a page on this machine that shows the pictures of a run by filters, and exports what it shows.

    server.py     addresses of the page, what policies decide for the rows, and exports: CSV, COCO, FiftyOne, CVAT
    command.py    what is asked for, and the server from start to end
    page/         HTML, CSS and JavaScript

Rows, filters and counts are in `reports/report/browsed_rows.py`. `jobs/review/` decides who may talk to the server, and
prepares a picture before it is shown. Nothing is written.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.filter`, `jobs.review`, `jobs.runtime`.
Start at: `command.py`.
"""
