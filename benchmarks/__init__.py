"""Scripts that measure figures of the docs, each run as `python -m benchmarks.NAME`. They print ratios.

May import: everything, the tests' made-up data included.
"""
