"""Pages on this machine, which show pictures of a run to people.

local_server.py   start and end of a server; handling.py: who may send requests, and errors
shown.py          row -> picture for the browser, some ahead
review/           people say what pictures show; browse/: people look through a run

starlette and uvicorn (extra `review`) are imported by `handling.py` and the `server.py` of each page, and inside
functions of `local_server.py`.
May import: `ingest`, `scoring`, `jobs.console`, `jobs.runtime`.
Start at: `handling.py`.
"""
