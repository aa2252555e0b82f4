"""What `models` does: the weights in the cache of this machine.

Start at: `weights.py`.
"""
