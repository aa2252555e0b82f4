"""What `scan` does, from a request to a result.

request.py        what is asked, with what, and what came of it
run.py            `run_scan`: the steps in order
prepared.py       its source and lists, opened
choosing.py, selection.py   which samples: all, the first, or a random draw
slice_tasks.py    shards -> slices without a result
on_ray.py, inline.py   the two executors, with one signature; further_processes.py next to the second
slice_scanner.py  one slice -> its result file; engine_host.py, batch_window.py, batch.py on the way
isolation.py, watchdog.py   pictures that kill or hang their worker
dry_run.py        `--dry-run`

May import: `ingest`, `scoring`, `jobs.console`, `jobs.doctor`, `jobs.runtime`.
Start at: `run.py`.
"""
