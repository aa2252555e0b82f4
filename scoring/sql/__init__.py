"""DuckDB as policies and reports use it: checked expressions, quoted names, limits, error texts.

May import: `ingest`.
Start at: `expressions.py`.
"""
