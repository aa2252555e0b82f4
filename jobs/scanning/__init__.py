"""Scans: from a corpus to a run, from a request to a result; and work on the files of a run.

request.py        what is asked, with what, and what came of it
run.py            `run_scan`: the steps in order
prepared.py       its source and lists, opened; what run.json says of it; why images have no row
preflight.py      before the run: a machine of the cluster is asked; `--dry-run`
slice_tasks.py    drawn samples; shards -> slices without a result; the watchdog
on_ray.py, inline.py   the two executors, with one signature
handed_back.py    machines of a cluster that have no engine
slice_scanner.py  one slice -> its result file; engine_host.py has the engine
batch.py          samples -> pixels -> answers -> rows, whose columns `scoring.table.to_table` fills
isolation.py      pictures that kill or hang their worker
diagnosis.py      what this machine lacks for a scan (`doctor`)
status.py, compacting.py, joining.py, purging.py   the files of a run: counted, joined, deleted

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.reporting`, `jobs.runtime`.
Start at: `run.py`.
"""
