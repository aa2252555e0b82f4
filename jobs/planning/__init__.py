"""What `privsieve plan` measures and what it works out from that.

recorded.py     figures for what cannot be measured where the plan is made
measuring.py    a small random sample of a corpus, read, decoded and scored here
arithmetic.py   measurements -> figures with ranges
"""
