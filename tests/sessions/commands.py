"""Commands of the sessions that make small corpora and show what files hold. Each takes words, as a shell gives."""

import hashlib
import json
import re
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import Fault
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.jobs.made import compact_run, rows, tar
from tests.jobs.releases import make_corpus
from tests.nasty import png
from tests.records import run_record, write_result
from tests.reports.evaluation.conftest import ATTRIBUTES, BINARY, REJECTED, SEVERITY, answered, found, hash_of, scored
from tests.screens import planted_corpus
from tests.screens import write_labels as write_csv_labels
from tests.tuning_sets.made import drawn

NO_PICTURE = b"<html>not found</html>"


def picture(number: int) -> bytes:
    """Of one colour, so that all encoders write the same bytes."""
    return png(32, 24, 8, 2, (b"\0" + bytes((number % 256, number // 256, 90)) * 32) * 24)


def tars(folder: str, *counts: str) -> None:
    """One tar for each count; every seventh picture is none. The category is in the JSON beside it."""
    first = 0
    for number, count in enumerate(map(int, counts)):
        members = dict[str, bytes]()
        for n in range(first, first + count):
            members[f"{n:03d}.png"] = picture(n) if n % 7 else NO_PICTURE
            members[f"{n:03d}.json"] = json.dumps({"category": "street" if n % 2 else "office"}).encode()
        Path(folder).mkdir(parents=True, exist_ok=True)
        tar(Path(folder, f"{number:05d}.tar"), members)
        first += count


def content(text: str) -> bytes:
    """NUMBER is a picture of that shade, NUMBER+NUMBER one with a second behind it, `none` no picture; else a text."""
    if re.fullmatch(r"drawn\d+", text):  # none is a near duplicate of another
        return drawn(int(text[5:]))
    if text.replace("+", "").isdecimal():
        return b"".join(picture(int(number)) for number in text.split("+"))
    return NO_PICTURE if text == "none" else text.encode()


def put(folder: str, *members: str) -> None:
    """NAME=CONTENT, into a folder, or into a tar if it is named so. `\\t` is a tab."""
    folder = folder.replace("\\t", "\t")
    made = dict[str, bytes]()
    for member in members:
        name, _, text = member.partition("=")
        made[name] = content(text)
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    if folder.endswith(".tar"):
        tar(Path(folder), made)
        return
    for name, what in made.items():
        Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
        Path(folder, name).write_bytes(what)


def table(file: str, *columns: str) -> None:
    """NAME=VALUE,VALUE,…: of a column named `image`, contents; else texts, or numbers. `-` is null."""
    made: dict[str, list[object]] = {}
    for column in columns:
        name, _, text = column.partition("=")
        made[name] = [None if v == "-" else content(v) if name == "image" else _value(v) for v in text.split(",")]
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(made), file)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def layout(name: str) -> None:
    """The corpus `NAME`, of six pictures: tars, tree or parquet."""
    make_corpus(Path(), name)


def policy(file: str, *lines: str) -> None:
    """Each `WHEN -> THEN` is a rule, all else a line of its own."""
    rules = [line.rpartition(" -> ") for line in lines if " -> " in line]
    others = [line for line in lines if " -> " not in line]
    named = {line.partition(":")[0] for line in others}
    usual = {"name": Path(file).stem, "default": "keep", "quarantined": "keep", "rules": "[]" if not rules else ""}
    text = [f"{key}: {value}" for key, value in usual.items() if key not in named]
    for n, (when, _, then) in enumerate(rules, 1):
        text.append(f"  - {{name: rule {n}, when: {json.dumps(when)}, then: {then}, reason: reason {n}}}")
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text("\n".join([*others, *text]) + "\n")


def planted(folder: str, num_private: str, num_public: str, seed: str, noise: str = "0.02") -> None:
    """A corpus whose captions tell what the canned engine says, and FOLDER.csv with that."""
    counts = int(num_private), int(num_public), int(seed)
    truth = planted_corpus(Path(folder), *counts, float(noise), without_caption=0.05, for_canned=True)
    write_csv_labels(Path(f"{folder}.csv"), truth)


def answers(run: str, *given: str) -> None:
    """A run of one shard that no engine made. KEY=ANSWER is of KEY.jpg: `yes` or `no` with or without `:PROBABILITY`,
    `score:NUMBER`, `rejected`, `broken`, or attributes that are there with `+` between them."""
    facts, verdicts = list[Facts](), list[Verdict]()
    engine = ATTRIBUTES
    for number, one in enumerate(given):
        key, _, answer = one.partition("=")
        word, _, value = answer.partition(":")
        facts.append(Facts("a", number, f"{key}.jpg", "cat", 9, hash_of(key)))
        if word in ("yes", "no"):
            engine = BINARY
            verdicts.append(answered(word == "yes", float(value) if value else None))
        elif word == "score":
            engine = SEVERITY
            verdicts.append(scored(float(value)))
        elif word in ("rejected", "broken"):
            verdicts.append(REJECTED if word == "rejected" else Fault("truncated", "the file ends early"))
        else:
            verdicts.append(found(**dict.fromkeys(filter(None, answer.split("+")), 1.0)))
    Path(run, "scores").mkdir(parents=True)
    Path(run, "run.json").write_text(run_record(engine).model_dump_json())
    write_result(Path(run), "a", 0, True, to_table(facts, verdicts))


def labelled(run: str, file: str, statement: str, private: str = "1") -> None:
    """Labels of the rows of a run: those that a condition in Python names, by `row` and `n`, are so private."""
    chosen = [row for n, row in enumerate(rows(Path(run))) if eval(statement, {"row": row, "n": n})]
    answers = [eval(private, {"row": row, "n": n}) for n, row in enumerate(chosen)]
    columns: dict[str, Any] = {"key": [row["key"] for row in chosen], "annotator": ["me"] * len(chosen)}
    write_labels(to_labels(columns | {"private": answers}, len(chosen)), file, LabelsOrigin("hand"))


def show(file: str, *names: str) -> None:
    """Columns of Parquet files, keys of JSON (`a.b` for one below another), or members of a tar."""
    if file.endswith(".json"):
        for name in names:
            found = json.loads(Path(file).read_text())
            for part in name.split("."):
                found = found[int(part)] if isinstance(found, list) else found[part]
            print(f"{name}: {json.dumps(found, ensure_ascii=False)}")
    elif file.endswith(".tar"):
        with tarfile.open(file) as archive:
            print(*archive.getnames(), sep="\n")
    else:
        for row in pq.read_table(file).select(list(names)).to_pylist():
            print(*("-" if row[name] is None else str(row[name]) for name in names), sep="  ")


def judged(file: str, *names: str) -> None:
    """These columns of a labels file, and each attribute that is judged."""
    for row in read_labels(file).to_pylist():
        given = [f"{key}={row[key]:g}" for key in KEYS if row[key] is not None]
        print(*("-" if row[name] is None else str(row[name]) for name in ("key", *names)), *given, sep="  ")


_MARKED: dict[str, dict[str, bytes]] = {}


def _files(folder: str) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def mark(folder: str) -> None:
    """Remembers the files of a folder, for `changed`."""
    _MARKED[str(Path(folder).absolute())] = _files(folder)


def changed(folder: str) -> None:
    """What differs from the folder at its last `mark`."""
    before, after = _MARKED[str(Path(folder).absolute())], _files(folder)
    lines = [f"gone: {name}" for name in before.keys() - after.keys()]
    lines += [f"new: {name}" for name in after.keys() - before.keys()]
    lines += [f"other: {name}" for name in before.keys() & after.keys() if before[name] != after[name]]
    print(*(sorted(lines) or ["nothing"]), sep="\n")


def edit(file: str, *changes: str) -> None:
    """KEY=JSON: what a JSON file says instead; `a.b` for one below another, nothing behind `=` removes it."""
    whole = json.loads(Path(file).read_text())
    for change in changes:
        name, _, text = change.partition("=")
        *above, last = name.split(".")
        at = whole
        for part in above:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if text:
            at[last] = json.loads(text)
        else:
            del at[last]
    Path(file).write_text(json.dumps(whole))


def rehash(release: str, *names: str) -> None:
    """The hashes of these shards in release.json are put right."""
    whole = json.loads(Path(release, "release.json").read_text())
    for name in names:
        whole["sha256"][name] = hashlib.sha256(Path(release, name).read_bytes()).hexdigest()
    Path(release, "release.json").write_text(json.dumps(whole))


def lease(folder: str, name: str = "lease.json") -> None:
    """As if another machine were at work there."""
    held = {"id": "x", "host": "elsewhere", "pid": 7, "renewed": time.time()}
    Path(folder, name).write_text(json.dumps(held))


def compact(run: str) -> None:
    compact_run(run)


def same(one: str, other: str) -> int:
    """Whether two files or folders hold the same."""
    both = [_files(name) if Path(name).is_dir() else Path(name).read_bytes() for name in (one, other)]
    return int(both[0] != both[1])


def spoil(file: str, at: str = "end", text: str = "more") -> None:
    """Write a text over a file at a place, or behind its end."""
    before = Path(file).read_bytes()
    start = len(before) if at == "end" else int(at)
    Path(file).write_bytes(before[:start] + text.encode() + before[start + len(text) :])


COMMANDS: dict[str, Callable[..., int | None]] = {
    made.__name__: made
    for made in (
        tars,
        put,
        table,
        layout,
        policy,
        planted,
        answers,
        labelled,
        edit,
        rehash,
        lease,
        compact,
        show,
        judged,
        mark,
        changed,
        same,
        spoil,
    )
}
