"""How good the answers of a run are, judged by labels.

Start at: `compute.py`, which joins a run with labels and returns every figure as frozen data. `metrics.py` has
the metrics that know the taxonomy; all others are in `reports.statistics`. A metric that is not
defined on the data is None (NaN in arrays), never 0.

May import: `ingest`, `scoring`, `reports.labels`, `reports.report`, `reports.statistics`.
"""
