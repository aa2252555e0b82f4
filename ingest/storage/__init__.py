"""Storage of files: places of any fsspec storage, which errors to retry, removal of folders. Start at `place.py`.

May import: nothing of other folders.
"""
