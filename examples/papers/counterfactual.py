"""What does a model say of pictures of level 1 if all faces are to be taken as anonymised?

    python examples/papers/counterfactual.py RUN FOLDER --model MODEL

Tsaprazlis et al., "Rethinking Visual Privacy", the counterfactual probe. RUN is a scan that judges attributes. Its
most certain pictures of level 1 are copied to FOLDER and asked about twice with each protocol: as it is, and with the
warning that all faces are anonymised. The paper does not say when a picture counts as highly confident; here the
highest probability of an attribute of level 1 decides. FOLDER holds pictures: protect it, or delete it.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import privsieve

LEVEL_1 = ("biometrics", "gov_ids", "unique_body_markings")
PROTOCOLS = ("severity:zero-shot", "severity:taxonomy", "json")


def draw(run: str, folder: Path, num_pictures: int, hash_list: str | None) -> dict[str, str]:
    """Copy the pictures into `folder`/pictures. Return sha256 -> what of level 1 the picture shows, such as gov_ids."""
    certainty = ", ".join(f"CASE WHEN {key} = 1 THEN coalesce(prob_{key}, 1) END" for key in LEVEL_1)
    shown = ", ".join(f"CASE WHEN {key} = 1 THEN '{key}' END" for key in LEVEL_1)
    with privsieve.open_run(run) as opened:
        rows = opened.sql(
            f"SELECT sha256, any_value(concat_ws('+', {shown})) AS shown FROM scored "
            "WHERE level = 1 AND sha256 IS NOT NULL GROUP BY sha256 "
            f"ORDER BY max(greatest({certainty})) DESC, md5(sha256) LIMIT {num_pictures}"
        ).to_pylist()
    if not rows:
        raise privsieve.RunError(f"no picture is of level 1 in {run}, so there is none to ask about")
    listed = ", ".join(f"'{row['sha256']}'" for row in rows)
    rule = f"  - name: drawn\n    when: sha256 IN ({listed})\n    then: keep\n    reason: drawn\n"
    text = f"name: drawn\nrules:\n{rule}default: drop\nquarantined: drop\n"
    policy, pictures = folder / "policy.yaml", folder / "pictures"
    if policy.exists() and policy.read_text() != text:
        raise privsieve.RunError(f"{folder} holds other pictures; name another FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    policy.write_text(text)
    if not (pictures / "release.json").exists():
        privsieve.filter(run, policy, pictures, hash_list=hash_list, resume=pictures.exists())
    return {row["sha256"]: row["shown"] for row in rows}


def ask(folder: Path, protocol: str, engine: str, options: privsieve.EngineOptions) -> privsieve.RunDifference:
    """Scan the pictures as the protocol is, and with the warning. Return what the warning changes."""
    runs = []
    for name in (protocol, f"{protocol}{',' if ':' in protocol else ':'}counterfactual"):
        runs.append(folder / name.replace(":", "-").replace(",", "-"))
        asked = replace(options, protocol=name)
        privsieve.scan(str(folder / "pictures"), runs[-1], engine=engine, options=asked)
    return privsieve.diff(*runs)


def by_group(difference: privsieve.RunDifference, column: str, shown: dict[str, str]) -> dict[str, list[float]]:
    """Return what of level 1 pictures show -> the change of the score of each such picture."""
    scores = []
    for run in (difference.a.run, difference.b.run):
        with privsieve.open_run(run) as opened:
            rows = opened.sql(f"SELECT sha256, {column} AS score FROM scored WHERE {column} IS NOT NULL").to_pylist()
        scores.append({row["sha256"]: row["score"] for row in rows})
    changes = defaultdict(list)
    for sha256 in scores[0].keys() & scores[1].keys():
        changes[shown[sha256]].append(scores[1][sha256] - scores[0][sha256])
    return dict(changes)


def show(protocol: str, difference: privsieve.RunDifference, shown: dict[str, str]) -> None:
    for score in difference.scores:
        ends = score.interval
        interval = "" if ends is None else f" (95 %: {ends.low:+.3f} to {ends.high:+.3f})"
        print(
            f"{protocol}: {score.column} of {score.num_pictures} pictures {score.mean_a:.3f}, with the warning "
            f"{score.mean_b:.3f}: {score.change:+.3f}{interval}"
        )
        for group, changes in sorted(by_group(difference, score.column, shown).items()):
            print(f"  {group}: {fmean(changes):+.3f} ({len(changes)} pictures)")
    for key, change in difference.attributes.items():
        if change.num_present_a or change.num_present_b:
            print(
                f"  {key}: in {change.num_present_a} of {change.num_assessed} pictures, with the warning in "
                f"{change.num_present_b}; vanished {change.num_vanished}, appeared {change.num_appeared}"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--engine", default="vllm", choices=["vllm", "transformers", "openai"])
    parser.add_argument("--endpoint", help="address of the server, for --engine openai")
    parser.add_argument("--protocol", action="append", help=f"repeatable; {' and '.join(PROTOCOLS)} by default")
    parser.add_argument("--pictures", type=int, default=100, help="how many; 100 by default")
    parser.add_argument("--hash-list", help="file of hashes; a picture on it is neither copied nor asked about")
    given = parser.parse_args(arguments)
    options = privsieve.EngineOptions(model=given.model, endpoint=given.endpoint)
    try:
        shown = draw(given.run, given.folder, given.pictures, given.hash_list)
        for protocol in given.protocol or PROTOCOLS:
            show(protocol, ask(given.folder, protocol, given.engine, options), shown)
    except privsieve.PrivsieveError as error:
        sys.exit(f"counterfactual: {error}")


if __name__ == "__main__":
    main()
