"""Scans: from a corpus to a run, from a request to a result; and work on the files of a run.

request.py        what is asked, with what, and what came of it
run.py            `run_scan`: the steps in order, and why images have no row
prepared.py       before it: its source and lists, the record of the run, a machine that is asked, `--dry-run`
chosen.py         the samples to scan
slice_tasks.py    shards -> slices without a result; watchdog.py ends those that stand still
on_ray.py, inline.py   the two executors, with one signature; `jobs.runtime.processes` has the processes
slice_scanner.py  one slice -> its result file; engine_host.py has the engine
batch.py          samples -> pixels -> answers -> rows, whose columns `scoring.table.to_table` fills
isolation.py      pictures that kill or hang their worker
diagnosis.py      what this machine lacks for a scan (`doctor`)
compacting.py     many small result files -> few large ones, at the end of a scan
status.py, purging.py   the files of a run: counted, deleted

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.reporting`, `jobs.runtime`.
Start at: `run.py`.
"""
