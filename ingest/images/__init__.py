"""Encoded bytes to pixels, and what else an image file holds. Start at `decode.py`.

May import: nothing of other folders.
"""

import logging

logging.getLogger("PIL").addHandler(logging.NullHandler())  # else Python prints its lines, which name no file
