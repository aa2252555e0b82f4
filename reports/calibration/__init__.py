"""Maps from the probabilities of a model to calibrated ones, which match the labels, and thresholds for these.

Start at: `compute.py`. The maps and metrics are in `reports.statistics`.

May import: `ingest`, `scoring`, `reports.evaluation`, `reports.labels`, `reports.statistics`.
"""
