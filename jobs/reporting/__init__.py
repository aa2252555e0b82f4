"""Reports, evaluations, comparisons and explanations of runs. They add to `reports` what is outside of a run:
pictures of the source, a hash list, a language model.

reporting.py    `run_report`; request.py is what it is asked
evaluating.py   `run_evaluate`; comparing.py: `run_diff`; explaining.py: `run_explain`

May import: `ingest`, `scoring`, `reports`, `jobs.console`, `jobs.runtime`.
Start at: `reporting.py`.
"""
