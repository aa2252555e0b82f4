"""The screen: a cheap first look that says how likely a picture is private, so that the engine sees only the others.

    modalities.py  picture -> features: of the caption, or of an ONNX encoder that the user names; kept in a folder
    text_encoder.py  caption -> features, by a text encoder that the user names
    transformers_model.py  such encoders of pictures and of texts in the format of the library transformers
    limited.py     the models that the user names, in child processes with limits
    detected.py    picture -> features, by the models of the detectors
    heads.py       features of one modality -> a logit; how heads are fitted
    fusion.py      the probabilities of several modalities -> one
    model.py       all of these together: a picture -> `prob_screen`, and whether it is screened out
    record.py      what a screen says of itself; screen_file.py reads and writes its folder
    guard.py       which screened pictures go to the engine all the same, and how a slice counts them

A screen is fitted on labels, and its miss rate is bounded, in `reports/screening/`.

May import: `ingest`, `scoring`, `scoring.engines.detectors`, `scoring.engines.vlm`.
Start at: `model.py`.
"""
