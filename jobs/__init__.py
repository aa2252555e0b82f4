"""Room 4 of 4: the verbs, one file each, and all side effects.

What lives here: `fetch`, `plan`, `scan`, `status`, `compact`, `report`, `sql`, `filter`; Ray; the run folder; shipped
policies, deployment files and the demo corpus.
May import: all other rooms. Imported by: nobody but tests.
Start at: `cli.py` for the list of verbs, then the file of the verb, read from top to bottom.
"""
