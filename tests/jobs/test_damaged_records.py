"""Whatever run.json, lease.json, compact.json or a mark of an attempt holds, a verb works or says one line."""

import json
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ingest.errors import PrivsieveError, RunError
from ingest.storage.place import place
from jobs.cli import cli
from scoring.runs.lease import STALE_S, holder, lease
from scoring.runs.record import read_record, start_or_continue
from scoring.runs.results import results
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import compact_run, privsieve, shard
from tests.making import Capture, Folders
from tests.records import run_record

ODD: tuple[bytes, ...] = (
    b"",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b"{",
    b"[" * 200_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b" " * (2**24 + 1) + b"{}",
    b'{"privsieve": "1", "privsieve": "2"}',
)
"""Instead of the whole file."""

VALUES: tuple[str, ...] = (
    *("null", "true", "-1", "1e999", "NaN", "1.5", "9" * 5000),
    *('"a\\u0000b"', '"\\ud800"', '"\\u001b[31m\\u009b\\r\\u202e"', '"../../x.parquet"', f'"{"x" * 100_000}"'),
    *("[]", '[["a"]]', '{"name": 1}'),
)
"""Instead of each value of the file, as JSON."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "corpus").mkdir()
    shard(folder / "corpus" / "00000.tar", 0, 3)
    scan_in_process(folder / "corpus", folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def compacted(run: Path, tmp_path_factory: Folders) -> Path:
    copy = shutil.copytree(run, tmp_path_factory.mktemp("compacted") / "run")
    compact_run(copy)
    return copy


LEASE = {"id": "other", "host": "elsewhere", "pid": 7, "renewed": 1e9}


def _contents(whole: Any) -> Iterator[bytes]:
    yield from ODD
    for path in _paths(whole):
        for value in VALUES:
            yield json.dumps(_with(whole, path, "VALUE")).replace('"VALUE"', value).encode()
        yield json.dumps(_without(whole, path)).encode()


def _paths(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:1]) if isinstance(tree, list) else ()
    for key, below in items:
        yield (*above, key)
        yield from _paths(below, (*above, key))


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = _with(tree[path[0]], path[1:], value)
    return copy


def _without(tree: Any, path: tuple[Any, ...]) -> Any:
    copy = tree.copy()
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = _without(tree[path[0]], path[1:])
    return copy


def _check(run: Path, *verbs: str) -> None:
    """Each verb works, or ends with an error of ours or of the command line."""
    options: dict[str, list[object]] = {
        "sql": ["SELECT count(*) FROM images"],
        "filter": ["--policy", "scoring/policies/research.yaml", "--out", run.parent / "out", "--dry-run"],
    }
    for verb in verbs:
        ended = CliRunner().invoke(cli, [verb, str(run), *map(str, options.get(verb, []))]).exception
        assert ended is None or isinstance(ended, PrivsieveError | SystemExit), repr(ended)
        assert "\n" not in str(ended)


READING = ("report", "sql", "status", "filter")


@pytest.mark.slow
def test_any_run_json_is_read_or_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    whole = json.loads((run / "run.json").read_text())
    num_refused = 0
    for number, content in enumerate(_contents(whole)):
        (copy / "run.json").write_bytes(content)
        try:
            read_record(str(copy))
        except RunError:  # as it is to every verb
            num_refused += 1
        else:
            _check(copy, READING[number % len(READING)])
    assert num_refused > 200
    _check(copy, *READING)


@pytest.mark.slow
def test_any_lease_is_read_or_passed_over(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    for content in _contents(LEASE | {"renewed": time.time()}):
        (copy / "lease.json").write_bytes(content)
        _check(copy, "status")


@pytest.mark.slow
def test_any_compact_json_is_read_or_refused_in_one_line(compacted: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(compacted, tmp_path / "run")
    whole = json.loads((compacted / "compact.json").read_text())
    num_refused = 0
    for number, content in enumerate(_contents(whole)):
        (copy / "compact.json").write_bytes(content)
        try:
            results(place(str(copy)))
        except RunError:
            num_refused += 1
        else:
            _check(copy, READING[number % len(READING)])
    assert num_refused > 100
    _check(copy, *READING)


def test_any_flipped_bit_in_where_the_rows_of_a_compacted_run_lie_is_harmless_or_reported(
    compacted: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(compacted, tmp_path / "run")
    wanted = results(place(str(copy)))
    [file] = (copy / "compact").glob("shards-*")
    parts, rng = file.read_bytes(), random.Random(3)
    for at in rng.sample(range(len(parts)), 300):
        flipped = bytearray(parts)
        flipped[at] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        with suppress(RunError):
            assert results(place(str(copy))) == wanted


def test_any_mark_of_an_attempt_is_passed_over(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    name = next((run / "scores").iterdir()).name
    (copy / "attempts").mkdir(exist_ok=True)
    for content in _contents({"deaths": 1, "failure": "a\x1b[31m", "cause": "E"}):
        (copy / "attempts" / f"{name}.json").write_bytes(content)
        _check(copy, "status")
    (copy / "attempts" / f"{name}.json").write_text(json.dumps({"deaths": 1, "failure": "a\x1b[31m\nb", "cause": "E"}))
    (copy / "scores" / name).unlink()
    printed = CliRunner().invoke(cli, ["status", str(copy)]).output
    assert "not begun, a\\x1b[31m\\nb\n" in printed


def test_a_lease_of_the_far_future_is_stale(tmp_path: Path) -> None:
    for renewed in (time.time() + STALE_S + 60, 4e9, 1e300):
        (tmp_path / "lease.json").write_text(json.dumps(LEASE | {"renewed": renewed}))
        found = holder(place(str(tmp_path / "lease.json")))
        assert found is not None
        assert found.is_stale()
        with lease(place(str(tmp_path / "lease.json")), "run", takeover=None):
            assert json.loads((tmp_path / "lease.json").read_text())["id"] != "other"


def test_a_lease_file_that_is_a_folder_is_named(run: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "lease.json").mkdir()
    assert privsieve("status", copy) == 2
    assert capsys.readouterr().err == f"privsieve: cannot read {copy}/lease.json: is a directory; remove it\n"


def test_no_text_of_a_record_reaches_the_terminal_as_it_is(run: Path, tmp_path: Path, capsys: Capture) -> None:
    odd, shown = "\x1b[31m\x9b\r\x07", "\\x1b[31m\\x9b\\r\\x07"
    record = run_record({"name": "canned", "protocol": "p", "assessed": ["age"], "versions": {"a": "1"}})
    engine = record.engine | {"protocol": odd, "assessed": [odd], "versions": {odd: odd}}
    start_or_continue(place(str(tmp_path / "other")), record.model_copy(update={"source": odd, "engine": engine}))
    with pytest.raises(RunError) as caught:
        start_or_continue(place(str(tmp_path / "other")), record)
    assert str(caught.value).isprintable()
    assert f'source was "{shown}", now "/data/corpus"; engine protocol was "{shown}"' in str(caught.value)
    long = record.model_copy(update={"source": "x" * 10**6})
    with pytest.raises(RunError) as caught:
        start_or_continue(place(str(tmp_path / "other")), long)
    assert len(str(caught.value)) < 3000
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "lease.json").write_text(json.dumps(LEASE | {"host": odd + "h" * 10**5, "renewed": time.time()}))
    next((copy / "scores").iterdir()).unlink()
    for verb, code in (("status", 0), ("report", 0)):
        assert privsieve(verb, copy) == code
        output = "".join(capsys.readouterr())
        assert f"process 7 on {shown}" in output
        assert output.replace("\n", "").isprintable()
        assert len(output) < 5000
