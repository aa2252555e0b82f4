-- The 95 % Wilson interval of one share. num_private, num_judged: whole numbers.
SELECT wilson_low({num_private}, {num_judged}) AS rate_low, wilson_high({num_private}, {num_judged}) AS rate_high;
