"""What commands read from the command line and write to a terminal.

Start at: `engine_options.py` for the options that commands share, `terminal.py` for output.
"""
