"""How much do a model's answers depend on the wording, or on the language, of the question?

    python examples/papers/wordings.py PICTURES LABELS FOLDER --model MODEL
    python examples/papers/wordings.py PICTURES LABELS FOLDER --model MODEL --prompt-file P1-P4.yaml
    python examples/papers/wordings.py PICTURES LABELS FOLDER --model MODEL --languages

Samson et al., "Privacy-Aware Visual Language Models", Tables 12 (wordings) and 6 (languages). Each wording of `binary`
is asked of all pictures, in a run of its own in FOLDER; the same command continues one that was interrupted. The table
has the metrics of each run, mean and standard deviation (n − 1), and how much the MCC moves over random halves of the
pictures, drawn without replacement (Figure 7). The best and the worst run are then compared on the
same pictures. They were chosen because they are far apart, so the interval is too narrow for wordings that do not
differ. Choose a wording on other pictures than those that you evaluate it on.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

import privsieve
from reports.evaluation.compute import METRICS
from reports.statistics.binary import BinaryMetrics, rates

WORDINGS = ("ours-1", "ours-2", "ours-3", "ours-4")
LANGUAGES = ("de", "ru", "zh")
"""Besides English; each is a file of texts."""


def ask(
    source: str, labels: str, folder: Path, engine: str, options: Mapping[str, privsieve.EngineOptions]
) -> dict[str, privsieve.Evaluation]:
    """Scan with the options of each name. Return name -> its evaluation."""
    found = {}
    for name, asked in options.items():
        privsieve.scan(source, folder / name, engine=engine, options=asked)
        found[name] = privsieve.evaluate(folder / name, labels)
    return found


def compare(found: dict[str, privsieve.Evaluation], labels: str) -> privsieve.Evaluation:
    """Evaluate the run with the highest MCC against that with the lowest."""
    ordered = sorted(found.values(), key=lambda each: _mcc(each) or 0.0)
    return privsieve.evaluate(ordered[-1].run, labels, compare=ordered[0].run)


def _mcc(evaluation: privsieve.Evaluation) -> float | None:
    return None if evaluation.private is None else evaluation.private.mcc


def mccs_of_parts(whole: BinaryMetrics, share: float, num_parts: int = 1000, seed: int = 0) -> np.ndarray:
    """Return the MCC of random parts of the pictures, without parts in which it is not defined.

    Drawing pictures without replacement and counting them is drawing counts from the multivariate hypergeometric
    distribution. share: of the pictures in each part, 0–1.
    """
    counts = (whole.num_true_positive, whole.num_false_positive, whole.num_false_negative, whole.num_true_negative)
    generator, size = np.random.default_rng(seed), int(whole.num_pictures * share)
    parts = generator.multivariate_hypergeometric(counts, size, size=num_parts, method="marginals")
    mccs = rates(parts.astype(np.float64))["mcc"]
    return mccs[~np.isnan(mccs)]


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation (n − 1) in words."""
    mean, deviation = np.mean(values) if len(values) else None, np.std(values, ddof=1) if len(values) > 1 else None
    return f"mean {_number(mean)}, sd {_number(deviation)}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def show(found: dict[str, privsieve.Evaluation], compared: privsieve.Evaluation) -> None:
    for name, evaluation in found.items():
        if (private := evaluation.private) is not None:
            ends = private.intervals.get("mcc")
            interval = "" if ends is None else f" (95 %: {ends.low:.3f} to {ends.high:.3f})"
            print(
                f"{name}: MCC {_number(private.mcc)}{interval}, F1 {_number(private.f1)}; "
                f"{private.num_rejected} pictures without an answer count as wrong; MCC of halves: "
                f"{spread(mccs_of_parts(private, 0.5))}"
            )
    results = [each.private for each in found.values() if each.private is not None]
    for metric in METRICS if results else ():
        print(f"{metric}: {spread([value for each in results if (value := getattr(each, metric)) is not None])}")
    if compared.comparison is not None and (change := compared.comparison.private.get("mcc")) is not None:
        ends = change.interval
        interval = "" if ends is None else f" (95 %: {ends.low:.3f} to {ends.high:.3f})"
        print(f"best and worst differ by {_number(change.difference)} in MCC{interval}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="PICTURES")
    parser.add_argument("labels", metavar="LABELS")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--engine", default="vllm", choices=["vllm", "transformers", "openai"])
    parser.add_argument("--endpoint", help="address of the server, for --engine openai")
    parser.add_argument("--adapter", help="folder of a tuned adapter")
    parser.add_argument("--max-pixels", type=int)
    parser.add_argument("--reading", choices=["lenient", "first"], help="how answers are read; strictly by default")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--languages", action="store_true", help="four languages instead of four wordings")
    asked.add_argument("--prompt-file", type=Path, help="YAML file of wordings ours_1, …; only these are asked")
    given = parser.parse_args(arguments)
    texts: dict[str, bytes | None] = dict.fromkeys(WORDINGS)
    if given.languages:
        files = {language: Path(__file__).parent / "languages" / f"{language}.yaml" for language in LANGUAGES}
        texts = {"en": None, **{language: file.read_bytes() for language, file in files.items()}}
    elif given.prompt_file is not None:
        try:
            content = given.prompt_file.read_bytes()
            known = yaml.safe_load(content)
            texts = dict.fromkeys((name for name in WORDINGS if name.replace("-", "_") in known), content)
        except (OSError, yaml.YAMLError, TypeError) as error:
            sys.exit(f"{given.prompt_file} is no YAML file of wordings ({type(error).__name__})")
    if len(texts) < 2:
        sys.exit(f"{given.prompt_file}: name at least two of ours_1, ours_2, ours_3 and ours_4")
    base = privsieve.EngineOptions(
        model=given.model, endpoint=given.endpoint, adapter=given.adapter, max_pixels=given.max_pixels
    )
    reading = f",{given.reading}" if given.reading else ""
    options = {
        name: replace(
            base, protocol=f"binary:{'ours-1' if given.languages else name}{reading}", prompt_file=prompt_file
        )
        for name, prompt_file in texts.items()
    }
    try:
        found = ask(given.source, given.labels, given.folder, given.engine, options)
        show(found, compare(found, given.labels))
    except privsieve.PrivsieveError as error:
        sys.exit(f"wordings: {error}")


if __name__ == "__main__":
    main()
