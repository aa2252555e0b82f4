"""DuckDB as policies and reports use it: checked expressions, quoted names, limits, error texts, tables of URLs.

May import: `ingest`.
Start at: `expressions.py`.
"""
