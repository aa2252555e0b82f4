"""The processes and machines that work runs on: Ray, progress, checks, weights of models.

`processes.py` shares the work of a scan or filter among processes of this machine. `pictures.py` and `hash_list.py`
read the pictures of a run again and compare them with a hash list.

May import: `ingest`, `scoring`, `reports`, `jobs.console`.
Start at: `cluster.py`.
"""
