"""What `browse` does: a page on this machine that shows the pictures of a run by filters, and exports what it shows.

    request.py    what is asked for
    exports.py    rows -> CSV, COCO, FiftyOne, CVAT
    server.py     addresses of the page, and what policies decide for the rows
    run.py        from start to end
    page/         HTML, CSS and JavaScript

Rows, filters and counts: `reports/report/browsed_rows.py`. Who may talk to the server, and what a picture is before it
is shown: `jobs/review/`. Nothing is written.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.filter`, `jobs.review`, `jobs.runtime`.
Start at: `run.py`.
"""
