"""What `privsieve labels` does: each command is a function here, a frozen request in, a frozen result out.

Start at: `importing.py`.
"""
