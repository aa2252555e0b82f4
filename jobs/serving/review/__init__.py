"""What `review` does: a page on this machine on which people look at pictures of a run and say what they show.

    reviewing.py  what is asked for; from start to end
    queue.py      which rows are asked: of the audit sample, near the decision, by a condition; gold pictures
    asking.py     who is asked what next, and what was answered
    progress.py   what the page works with: counts, known answers, next commands
    server.py     addresses of the page
    page/         HTML, CSS and JavaScript

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.serving`.
Start at: `reviewing.py`.
"""
