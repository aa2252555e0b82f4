"""Rules that decide keep, flag or drop, and the policies that are shipped as YAML.

Start at: `policy.py`.
"""
