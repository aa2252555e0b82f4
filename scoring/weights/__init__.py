"""Weights of models and adapters: a folder, a name on the Hugging Face hub, or any fsspec URL -> a folder here.

    sources.py    what a user names -> a folder of this machine
    fetching.py   the files of a URL that a model may have -> the cache
    cache.py      what the cache holds: locks, room, checks, removal

Every machine fetches for itself what it needs, once. Knows files, and nothing of what is in them.
May import: `ingest`.
Start at: `sources.py`.
"""
