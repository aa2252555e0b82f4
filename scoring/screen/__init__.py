"""The screen: a cheap first look that says how likely a picture is private, so that the engine sees only the others.

    modalities.py  picture -> features; those of the caption
    detected.py    picture -> features, by the models of the detectors
    encoder.py     picture -> features, by an ONNX model that the user names, in a child process with limits
    heads.py       features of one modality -> a logit; how heads are fitted
    fusion.py      the probabilities of several modalities -> one
    model.py       all of these together: a picture -> `prob_screen`, and whether it is screened out
    record.py      what a screen says of itself; screen_file.py reads and writes its folder
    guard.py       which screened pictures go to the engine all the same, and how a slice counts them

A screen is fitted on labels, and its miss rate is bounded, in `reports/screening/`.

May import: `ingest`, `scoring`, `scoring.engines.detectors`.
Start at: `model.py`.
"""
