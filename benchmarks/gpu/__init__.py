"""The first minutes on a GPU: README.md has the commands; `call.py` names the steps."""
