"""What `review` does: a page on this machine on which people look at pictures of a run and say what they show.

    queue.py      which rows are asked: of the audit sample, near the decision, by a condition; gold pictures
    screen.py     row -> picture for the browser, some ahead
    asking.py     who is asked what next, and what was answered
    progress.py   what the page works with: counts, agreement, known answers, next commands
    local_server.py, handling.py    what all servers of pages share: start and end, who may send requests, errors
    server.py     addresses of the page
    command.py    what is asked for; from start to end
    page/         HTML, CSS and JavaScript

starlette and uvicorn (extra `review`) are imported by `server.py` and `handling.py`, and inside
functions of `command.py` and `local_server.py`.
May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `command.py`.
"""
