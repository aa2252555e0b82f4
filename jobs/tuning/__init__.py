"""Tuning: labelled pictures become a training set, and a training set an adapter of a model.

labelled_pictures.py   the pictures, their labels, and those to leave out
training_set.py        `run_tune_set`
tuning.py              `run_tune`

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `training_set.py`.
"""
