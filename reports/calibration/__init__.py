"""From probabilities that a model gives to probabilities that mean what they say, and thresholds that follow.

Arrays in, maps and thresholds out, but for `calibrated.py`, which takes the rows of a run. Start there. The metrics are
those of `reports.statistics.calibration`.

May import: `ingest`, `scoring`, `reports.evaluation`, `reports.labels`, `reports.statistics`.
"""
