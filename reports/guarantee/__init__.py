"""How many private pictures a threshold drops for certain, judged by labels.

Pure numpy, and knows neither runs nor files. Start at: `bound.py`.
"""
