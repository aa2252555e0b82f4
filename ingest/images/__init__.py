"""Encoded bytes to pixels, and what else an image file holds. Start at `decode.py`.

May import: nothing of other folders.
"""
