"""Weights of models and adapters: a folder, a name on the Hugging Face hub, or any fsspec URL -> a folder here.

    sources.py   a name that the user gave -> a folder of this machine
    hub.py       a name of the hub -> the cache of its own package, checked
    cache.py     a URL -> our cache
    files.py     which files a model may have; who is told of fetching

Every machine fetches for itself what it needs, once. Knows files, but not their content.
May import: `ingest`.
Start at: `sources.py`.
"""
