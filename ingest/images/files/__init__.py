"""What the bytes of a picture's file say without decoding it: its format, metadata, and what no scan sees.

May import: nothing of other folders.
Start at: `magic.py` for the format, `unseen.py` for content beyond the scanned picture.
"""
