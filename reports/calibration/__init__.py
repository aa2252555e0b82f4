"""From probabilities that a model gives to probabilities that mean what they say, and thresholds that follow.

Start at: `compute.py`. The maps and metrics are in `reports.statistics`.

May import: `ingest`, `scoring`, `reports.evaluation`, `reports.labels`, `reports.statistics`.
"""
