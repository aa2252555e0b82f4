"""DuckDB as policies and reports use it: checked expressions, quoted names, limits, error texts.

Start at: `expressions.py`.
"""
