"""Where every command begins: `privsieve VERB`, and `python -m jobs VERB` on a cluster, where it is not installed."""

import os
import sys
import warnings

from jobs import hidden_room


def main() -> None:
    """Run `jobs.cli.main`. It is imported only after the check that no other package hides ours."""
    if hidden := hidden_room():
        print(f"privsieve: {hidden}", file=sys.stderr)
        sys.exit(2)
    if not sys.warnoptions:  # lines of libraries name files of Python code, and no user can act on them
        warnings.simplefilter("ignore")
        os.environ.setdefault("PYTHONWARNINGS", "ignore")  # for the processes that a command starts
    from jobs.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
