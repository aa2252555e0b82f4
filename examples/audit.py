"""How private is a corpus, and what would be left of it?

    python examples/audit.py SOURCE FOLDER [NUM_IMAGES]

It scans all images, or a random sample, in this process, prints the categories with the highest privacy rates, names
the most severe images by key, and writes an HTML page and a release without what the `strict` policy drops.
"""

import shutil
import sys
from pathlib import Path

import privsieve


def audit(source: str, folder: Path, num_images: int | None = None) -> privsieve.FilterResult:
    scanned = privsieve.scan(source, folder / "run", sample=num_images)
    print(scanned)
    with privsieve.open_run(folder / "run") as run:
        for rate in run.rates(by="category")[:5]:
            share = "no rate" if rate.privacy_rate is None else f"{rate.privacy_rate:.0%}"
            print(f"{rate.group}: {share} of {rate.num_scored} images are private")
        for image in run.sql("SELECT key, level, rationale FROM scored ORDER BY s_lex DESC LIMIT 3").to_pylist():
            print(f"{image['key']}: level {image['level']}, {image['rationale']}")
    privsieve.report(folder / "run", html=folder / "report.html")
    shutil.rmtree(folder / "release", ignore_errors=True)
    return privsieve.filter(folder / "run", "strict", folder / "release")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python examples/audit.py SOURCE FOLDER [NUM_IMAGES]")
    try:
        audit(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
    except privsieve.PrivsieveError as error:
        sys.exit(f"audit: {error}")
