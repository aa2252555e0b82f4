"""What `similarity` does: says whether changed pictures still show what the originals did.

    request.py     what is asked for
    changing.py    changed versions that the command makes itself
    comparing.py   which changed picture belongs to which original; where a pair differs, and its numbers; the sets of
                   changed pictures: other corpora, and versions made in memory
    run.py         all pairs -> the tables of `compare`

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `run.py`.
"""
