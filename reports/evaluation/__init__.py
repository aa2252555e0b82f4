"""How good the answers of a run are, judged by labels.

The metrics take arrays, one idea per file, and know neither runs nor files: `binary.py`, `severity.py`, `pairs.py`,
`attributes.py`, `calibration.py`, `classes.py`, `stability.py`, `intervals.py`, `paired.py`, `spread.py`. A metric that
is not defined on the data is None (NaN inside of arrays), never 0. Start at: `compute.py`, which joins a run with
labels and returns every figure as frozen data.

May import: `ingest`, `scoring`, `reports.labels`, `reports.page`, `reports.report`, `reports.statistics`.
"""
