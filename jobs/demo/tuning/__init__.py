"""The corpus of `make demo-tune`: drawn signs instead of photographs, and a vision-language model of 0.7 M parameters.

It shows that tuning works on a laptop in minutes, and nothing about the quality of a real model. Start at: `signs.py`.

May import: `scoring`, `reports`, `jobs.console`.
"""
