"""Where every command begins: `privsieve VERB`, and `python -m jobs VERB` on a cluster, where it is not installed."""

import sys

from jobs import hidden_room


def main() -> None:
    """Run `jobs.cli.main`. It is imported only after the check that no other package hides ours."""
    if hidden := hidden_room():
        print(f"privsieve: {hidden}", file=sys.stderr)
        sys.exit(2)
    from jobs.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
