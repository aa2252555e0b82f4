"""Statistics: arrays in, numbers out. Knows no run, no file and no words; imports nothing of `reports` but itself.

One idea per file; the name of the file says which.

May import: nothing of other folders.
"""
