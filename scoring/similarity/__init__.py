"""Encoders: pictures become features whose distance says how alike their content is.

    encoders.py    the frozen features of the detectors, or a file that training wrote
    networks.py    the networks that can be trained; triplet loss -> a file of safetensors
    triplets.py    the folders of labelled versions that training reads

torch is imported by `networks.py` alone.
May import: `ingest`, `scoring.engines.detectors`.
Start at: `encoders.py`.
"""
