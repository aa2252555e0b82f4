"""Damaged pictures are cleaned and covered: none is written that cannot be examined again.

    python -m benchmarks.mutants --num 50000

The same mutants each time, of ordinary files and of those that hide a card; the first ones are those of the tests in
tests/ingest/. It stops at the first one that is written and cannot be examined, has other pixels, shows what was
covered, or still holds content that a scan does not see.
"""

import click

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from tests.ingest.crafted import HIDING
from tests.ingest.test_cleaning import is_cleaned, mutants, ordinary
from tests.ingest.test_covering import is_covered


def _is_hiding(mutant: bytes) -> bool:
    image = decode(mutant, ImageLimits())
    return isinstance(image, DecodedImage) and bool(image.unseen)


@click.command()
@click.option("--num", default=50_000, show_default=True, help="Mutants.")
def fuzz(num: int) -> None:
    hiding = [maker() for name, (maker, _) in HIDING.items() if name.endswith((".jpg", ".png", ".webp", ".gif"))]
    wholes = [*ordinary(), *hiding]
    num_tried = num_cleaned = num_covered = num_freed = 0
    for mutant in mutants(-(-num // len(wholes)), wholes):
        num_tried += 1
        is_clean = is_cleaned(mutant)
        num_cleaned += is_clean
        num_freed += is_clean and _is_hiding(mutant)
        num_covered += is_covered(mutant)
    click.echo(
        f"{num_tried:,} mutants: {num_cleaned:,} cleaned, of which {num_freed:,} held content that a scan does not see "
        f"and hold none now; {num_covered:,} covered; each of these can be examined, the others are not written"
    )


if __name__ == "__main__":
    fuzz()
