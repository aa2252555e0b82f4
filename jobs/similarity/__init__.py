"""What `similarity` does: says whether changed pictures still show what the originals did.

    request.py     what is asked for
    changing.py    changed versions that the command makes itself
    comparing.py   which changed picture belongs to which original; where a pair differs, and its numbers; the sets of
                   changed pictures: other corpora, and versions made in memory
    run.py         all pairs -> the tables of `compare`; `rank`: the same numbers against people; `votes`
    questions.py   pairs -> the questions of a study of people
    asking.py, asking_page.py    who is asked what next, and the server of `ask`
    page/          HTML, CSS and JavaScript of `ask`
    training.py    labelled versions -> an encoder

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`, `jobs.serving`.
Start at: `run.py`.
"""
