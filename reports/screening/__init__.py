"""Fits a screen on labels, and says what the labels prove of it. Arrays and features in, numbers out.

    compute.py      labelled pictures -> a screen: the steps in order; heads, curves and fusion
    pictures.py     labelled pictures with their features; which ones a screen learns from
    bounds.py       the threshold by the exact bound; whether a scan contradicts the bound
    words.py        all of this in words

May import: `ingest`, `reports.statistics`, `scoring.labels`, `scoring.screen`.
Start at: `compute.py`.
"""
