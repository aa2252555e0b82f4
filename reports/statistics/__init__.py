"""Statistics: arrays in, numbers out. Knows no run, no file and no words; imports nothing of `reports` but itself.

    shares.py, intervals.py                     how sure a share, or another figure, is; thresholds that labels prove
    binary.py, calibration.py, correlation.py   how good answers and probabilities are
    agreement.py, paired.py                     people, or two runs, on the same pictures
    estimates.py, category_rates.py             rates corrected by labels

May import: nothing of other folders.
"""
