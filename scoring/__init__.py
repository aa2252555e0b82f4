"""Room 2 of 4: questions about images, engines that answer them, scores and decisions.

What lives here: the taxonomy (data), the severity score, engines and their one signature, the row per image,
policies and their decisions.
May import: `ingest`. Never `reports` or `jobs`. Heavy imports (onnxruntime, cv2, duckdb) stay inside the files
that need them.
Start at: `taxonomy.yaml` for the attributes, `engines/__init__.py` for the engines, `table.py` for the row.
"""
