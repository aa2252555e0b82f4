"""Shipped mappings of other taxonomies onto the 22 attributes, as YAML; `scoring/labels/mapping.py` reads them.

May import: nothing of other folders.
"""
