"""How much faster a scan is with a screen, at a planted share of private pictures.

    python -m benchmarks.screen_throughput --images 400 --prevalence 0.05 --engine detectors

The pictures are random blocks, whose captions tell which ones are private, and the screen looks at captions: so the
ratio is that of a screen that costs next to nothing compared with the engine. One process scans, without Ray.

The guard is that of `screen fit`.
"""

import argparse
import tempfile
import time
from pathlib import Path

from jobs.console.requests import asked
from jobs.scanning.request import ScanRequest, ScanResources
from jobs.scanning.run import run_scan
from jobs.screening.fitting import run_screen_fit
from jobs.screening.request import FitRequest
from tests.screens import planted_corpus, write_labels


def _scan_s(folder: Path, run: str, engine: str, screen: str | None) -> tuple[float, float, int]:
    """Seconds of a scan, its CPU seconds, which do not depend on who else uses the machine, and how many images the
    engine saw."""
    given = {"source": str(folder / "corpus"), "run": str(folder / run), "engine": engine, "screen": screen}
    request = asked(ScanRequest, given)
    began, began_cpu = time.perf_counter(), time.process_time()
    result = run_scan(request, asked(ScanResources, {"executor": "inline", "processes": 1}))
    return time.perf_counter() - began, time.process_time() - began_cpu, result.num_scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--prevalence", type=float, default=0.05)
    parser.add_argument("--engine", default="detectors")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        truth = planted_corpus(folder / "labelled", 200, 400, 1, noise=0.02)
        fit = {"source": str(folder / "labelled"), "labels": str(write_labels(folder / "labels.csv", truth))}
        fit |= {"out": str(folder / "screen")}
        run_screen_fit(asked(FitRequest, {**fit, "target_miss": 0.05, "modality": ("caption",)}))
        num_private = round(given.images * given.prevalence)
        planted_corpus(folder / "corpus", num_private, given.images - num_private, 2, noise=0.02)
        _scan_s(folder, "warm-up", given.engine, None)
        full_s, full_cpu_s, num_full = _scan_s(folder, "full", given.engine, None)
        screened_s, screened_cpu_s, num_seen = _scan_s(folder, "screened", given.engine, str(folder / "screen"))
    print(f"without: {num_full} images in {full_s:.1f} s, {full_cpu_s:.1f} CPU s")
    print(f"with:    the engine saw {num_seen} of {given.images} in {screened_s:.1f} s, {screened_cpu_s:.1f} CPU s")
    ratio, ratio_cpu = full_s / screened_s, full_cpu_s / screened_cpu_s
    print(f"ratio    {ratio:.1f}, of CPU time {ratio_cpu:.1f}, with the start of the engine in both")


if __name__ == "__main__":
    main()
