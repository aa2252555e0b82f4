"""Damaged pictures are cleaned and covered: none is written that cannot be examined again.

    python -m tests.benchmarks.mutants --num 50000

The same mutants each time: the first ones are those of the tests in tests/ingest/. It stops at the first one that is
written and cannot be examined, has other pixels, or shows what was covered.
"""

import click

from tests.ingest.test_cleaning import is_cleaned, mutants
from tests.ingest.test_covering import is_covered

NUM_FILES = 9
"""Files that mutants are made of."""


@click.command()
@click.option("--num", default=50_000, show_default=True, help="Mutants.")
def fuzz(num: int) -> None:
    num_tried = num_cleaned = num_covered = 0
    for mutant in mutants(-(-num // NUM_FILES)):
        num_tried += 1
        num_cleaned += is_cleaned(mutant)
        num_covered += is_covered(mutant)
    click.echo(
        f"{num_tried:,} mutants: {num_cleaned:,} cleaned, {num_covered:,} covered; each of these can be examined, the "
        "others are not written"
    )


if __name__ == "__main__":
    fuzz()
