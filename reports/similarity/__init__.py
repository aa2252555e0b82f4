"""Measures whether changed pictures still show what the originals did, and how well each figure follows what people
recognise.

    results.py      what is known of each pair, each set and all
    compute.py      pairs, one after the other -> results
    recognised.py   what people recognised, by majority; figures of sets against that
    words.py        the results in words, and the page

May import: `ingest`, `reports.statistics`, `scoring.labels`.
Start at: `results.py`.
"""
