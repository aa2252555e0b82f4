"""Room 1 of 4: corpora and pixels, in both directions.

What lives here: reading a source as shards, slices and samples; decoding encoded bytes into pixels with a
reason instead of an exception; writing kept samples back in their own layout; storage behind fsspec.
May import: nothing from the other rooms (scoring, reports, jobs), and no model.
Start at: `sample.py` for the noun that flows through, `formats/__init__.py` for how a source is read.
"""

__version__ = "1.0.0"
