"""Weights of models and adapters: a folder, a name on the Hugging Face hub, or any fsspec URL -> a folder here.

    sources.py    a name that the user gave -> a folder of this machine
    fetching.py   the files of a URL that a model may have -> the cache
    cache.py      the content of the cache: locks, room, checks, removal

Every machine fetches for itself what it needs, once. Knows files, but not their content.
May import: `ingest`.
Start at: `sources.py`.
"""
