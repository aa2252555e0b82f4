"""`python -m jobs VERB`: how a cluster runs the tree without installing it."""

from jobs.cli import main

if __name__ == "__main__":
    main()
