"""Releases: described, decided, written, covered, checked and taken back.

record.py         what `release.json` says
files.py          which files a release has beside its shards, and which may be published
filtering.py      `run_filter`: a release from start to end
decider.py        a row -> keep, flag, redact or drop, and why, stage by stage; guaranteeing.py: the threshold;
                  overruling.py: what follows from other pictures; decisions.py: decisions as a table
plan.py           all decisions counted before a byte is written; destination.py: where none may be written
copying.py        one shard of the source -> one shard of the release; rewriting.py cleans and covers its pictures
shards.py         a release of pictures; url_list.py a list of URLs, and `kind_of`, which of both a release is
finishing.py      what is written last; card.py: its card
checking.py       `run_verify`
taking_down.py    `run_takedown`; with entries.py (its list), matching.py (the pictures), journal.py (files in place)
applying_removals.py   the same for an older copy; looking_up.py: whether a release holds a picture

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `record.py` and `files.py`, then `filtering.py`.
"""
