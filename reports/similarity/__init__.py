"""Measures whether changed pictures still show what the originals did.

    likeness.py     how alike two pictures are
    results.py      what is known of each pair, each set and all
    compute.py      pairs, one after the other -> results
    words.py        the results in words

May import: `ingest`, `reports.statistics`.
Start at: `results.py`.
"""
