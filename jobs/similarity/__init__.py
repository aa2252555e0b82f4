"""What `similarity` does: says whether changed pictures still show what the originals did.

    request.py     what is asked for
    comparing.py   which changed picture belongs to which original; where a pair differs, and its numbers
    run.py         all pairs -> the tables of `compare`

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `run.py`.
"""
