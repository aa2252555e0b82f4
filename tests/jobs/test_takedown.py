"""`takedown`: pictures leave a release, whatever happens in between."""

import hashlib
import json
import shutil
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import StorageError
from ingest.formats.released import RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED
from ingest.storage.place import place
from jobs.releases.matching import RemovalResult
from jobs.releases.taking_down import TakedownRequest, run_takedown
from scoring.runs.lease import Lease, lease
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import FIRST_DROPPED, URL, Capture, asked, decisions, files, pictures, stopped_at, with_policy


def held(release: Path, layout: str | None = None) -> dict[str, bytes]:
    """The first letter of each key -> content. layout: by default as the name of the release says."""
    return {key[0]: content for key, content in pictures(release, layout or release.name.split("-")[0])}


@pytest.mark.parametrize("name", ["sha256", "released_sha256", "key", "shard/key", "sha256sum"])
def test_a_picture_goes_by_each_of_its_names_and_the_rest_stays(release: Path, name: str, capsys: Capture) -> None:
    before, row = held(release), decisions(release)["c"]
    lines = {"shard/key": f"{row['shard']}/{row['key']}", "sha256sum": f"{row['sha256']}  photos/mine.jpg"}
    line = lines.get(name) or str(row[name])
    requests = asked(release, line)
    capsys.readouterr()
    assert privsieve("release", "takedown", release, requests, "--dry-run") == 0
    named = f"the list has 1 line\n  {row['shard']}/{row['key']}\n"
    assert capsys.readouterr().out == f"1 picture in 1 shard would be taken down; {named}"
    assert held(release) == before
    assert privsieve("release", "takedown", release, requests) == 0
    assert capsys.readouterr().out == (
        f"1 picture in 1 shard was taken down; {named}next: privsieve release verify {release}\n"
    )
    assert held(release) == {key: content for key, content in before.items() if key != "c"}
    assert privsieve("release", "verify", release) == 0
    after = decisions(release)["c"]
    assert (after["action"], after["rule"], after["released_sha256"]) == ("drop", "(takedown)", None)
    assert (after["key"], after["sha256"]) == (row["key"], row["sha256"])
    summary = json.loads((release / "release.json").read_text())
    assert [taken["num_pictures"] for taken in summary["takedowns"]] == [1]
    assert summary["rules"]["(takedown)"] == {"drop": 1}
    assert sum(summary["actions"].values()) == summary["num_images"]
    assert not list(release.glob("takedown*")) + list(release.glob("release.lease*"))


def test_of_a_row_with_two_images_one_is_released_and_one_goes(tmp_path: Path, capsys: Capture) -> None:
    before, after = [[jpeg(n) for n in range(first, 4 + first)] for first in (0, 4)]
    columns = {"input": before, "output": [{"bytes": picture, "path": None} for picture in after], "key": [*"abcd"]}
    pq.write_table(pa.table(columns | {"hash": [b"0"] * 4}), tmp_path / "a.parquet")
    source, run, release = tmp_path / "a.parquet", tmp_path / "run", tmp_path / "release"
    assert privsieve("scan", source, "--run", run, "--engine", "canned") == 0
    notice = "not scanned: column hash (it holds bytes, and the first do not begin like a picture)"
    assert notice in capsys.readouterr().err
    rule = "{name: r, when: \"key IN ('a#input', 'b#output')\", then: drop, reason: r}"
    policy = with_policy(tmp_path, f"name: p\ndefault: keep\nquarantined: drop\nrules:\n  - {rule}\n")
    assert privsieve("filter", run, "--policy", policy, "--out", release) == 0
    assert privsieve("release", "verify", release) == 0
    assert privsieve("release", "takedown", release, asked(release, "c#input", "d#input", "d#output")) == 0
    assert privsieve("release", "verify", release) == 0
    table = pq.read_table(release / "a.parquet")
    assert table.column_names == ["input", "output", "key"]
    assert table["key"].to_pylist() == ["a", "b", "c"]
    assert table["input"].to_pylist() == [None, before[1], None]
    assert [cell and cell["bytes"] for cell in table["output"].to_pylist()] == [after[0], None, after[2]]


def test_images_of_a_column_that_is_left_out_are_not_claimed(tmp_path: Path, capsys: Capture) -> None:
    pq.write_table(pa.table({"input": [jpeg(1)], "output": [jpeg(2)]}), tmp_path / "a.parquet")
    given = ("scan", tmp_path / "a.parquet", "--run", tmp_path / "run", "--engine", "canned")
    assert privsieve(*given, "--image-column", "output") == 0
    assert "not scanned: column input (--image-column leaves it out)" in capsys.readouterr().err
    assert privsieve("report", tmp_path / "run") == 0
    assert capsys.readouterr().out.splitlines()[0] == "all images but those of the column input"
    assert privsieve(*given) != 0  # a run has one choice
    assert privsieve("filter", tmp_path / "run", "--policy", "research", "--out", tmp_path / "out") == 0
    assert pq.read_schema(tmp_path / "out" / "a.parquet").names == ["output"]
    assert privsieve("release", "verify", tmp_path / "out") == 0


def test_lines_that_find_nothing_are_named_by_their_number(tars: Path, capsys: Capture) -> None:
    requests = asked(tars, "b", "somebody's name", "a", "0" * 64)
    capsys.readouterr()
    assert privsieve("release", "takedown", tars, requests) == 1
    output = capsys.readouterr().out
    assert output == (
        "1 picture in 1 shard was taken down; the list has 4 lines\n"
        "  0.tar/b\n"
        "  1 line: not in the release any more, or never (5)\n"
        "  2 lines: no picture that the release knows (4, 6)\n"
        f"next: privsieve release verify {tars}\n"
    )
    assert privsieve("release", "takedown", tars, requests) == 1
    assert capsys.readouterr().out == (
        "0 pictures in 0 shards were taken down; the list has 4 lines\n"
        "  2 lines: not in the release any more, or never (3, 5)\n"
        "  2 lines: no picture that the release knows (4, 6)\n"
    )


@pytest.mark.parametrize("line", ["a\u2028c", "a\x85c", "a\x1cc", "a\x0cc", "a\rc", "a\u2028", "\x0ca"])
def test_a_line_ends_at_a_line_feed_only(tars: Path, line: str, capsys: Capture) -> None:
    """Else the name of one picture would be that of others."""
    before, requests = held(tars), asked(tars, line)
    capsys.readouterr()
    assert privsieve("release", "takedown", tars, requests) == 1
    assert "1 line: no picture that the release knows (3)" in capsys.readouterr().out
    assert held(tars) == before


def test_a_url_and_a_domain_name_pictures(tars: Path, capsys: Capture) -> None:
    assert privsieve("release", "takedown", tars, asked(tars, URL.format("b"))) == 0
    assert set(held(tars)) == {"c", "d", "f"}
    assert decisions(tars)["b"]["rule"] == "(takedown)"
    capsys.readouterr()
    assert (
        privsieve("release", "takedown", tars, asked(tars, URL.format("a"), URL.format("b"), "https://example.org/"))
        == 1
    )
    assert capsys.readouterr().out == (
        "0 pictures in 0 shards were taken down; the list has 3 lines\n"
        "  1 line: not in the release any more, or never (4)\n"
        "  2 lines: no picture that the release knows (3, 5)\n"
    )
    assert privsieve("release", "takedown", tars, asked(tars, "domain Example.org")) == 0
    assert held(tars) == {}
    assert privsieve("release", "verify", tars) == 0
    by = {row["key"]: row["by"] for row in pq.read_table(tars / "removed.parquet").to_pylist()}
    assert by == {"b": "url", "c": "domain", "d": "domain", "f": "domain"}


def test_copies_of_a_picture_go_with_its_url_or_hash_and_not_with_its_key_or_domain(
    tmp_path: Path, capsys: Capture
) -> None:
    """a and b are the same picture at two domains."""
    (tmp_path / "source").mkdir()
    members: dict[str, bytes] = {}
    for key, host, shade in (("a", "one.org", 0), ("b", "two.org", 0), ("c", "two.org", 9)):
        members |= {f"{key}.jpg": jpeg(shade), f"{key}.json": json.dumps({"url": f"https://{host}/{key}"}).encode()}
    tar(tmp_path / "source" / "0.tar", members)
    policy = with_policy(tmp_path, "name: all\nrules: []\ndefault: keep\nquarantined: drop\n")
    assert privsieve("scan", tmp_path / "source", "--run", tmp_path / "run", "--engine", "canned") == 0
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", tmp_path / "whole") == 0
    sha256 = hashlib.sha256(jpeg(0)).hexdigest()
    for line, left in (("https://one.org/a", "c"), (sha256, "c"), ("a", "bc"), ("domain one.org", "bc")):
        release = tmp_path / "tars-release"
        shutil.rmtree(release, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", release)
        capsys.readouterr()
        assert privsieve("release", "takedown", release, asked(release, line)) == 0
        stays = "  1 copy with the same bytes stays, 0.tar/b; a line with the sha256 of the picture takes all down\n"
        assert (stays in capsys.readouterr().out) == ("b" in left)
        assert "".join(sorted(held(release))) == left
        assert privsieve("release", "verify", release) == 0


def test_the_decisions_name_no_url_of_what_is_not_released(tars: Path) -> None:
    assert {key: row["domain"] for key, row in decisions(tars).items()} == dict.fromkeys("bcdf", "example.org") | {
        "a": None,
        "e": None,
    }
    assert decisions(tars)["a"]["url_sha256"] is None


def test_a_part_of_a_domain_and_a_release_without_urls_are_refused(
    tars: Path, releases: dict[str, Path], tmp_path: Path, capsys: Capture
) -> None:
    assert privsieve("release", "takedown", tars, asked(tars, "domain b.example.org")) == 2
    assert "requests.txt, line 3: is no registered domain, such as example.org" in capsys.readouterr().err
    policy = with_policy(tmp_path, FIRST_DROPPED + "members: image-only\n")
    run, alone = releases["tars-as-is"].parent / "run-tars", tmp_path / "alone"
    assert privsieve("filter", run, "--policy", policy, "--out", alone, "--quiet") == 0
    for line, what in ((URL.format("b"), "a URL"), ("domain example.org", "a domain")):
        assert privsieve("release", "takedown", alone, asked(alone, line)) == 2
        assert f"line 3 of the list names {what}, and {alone} records none" in capsys.readouterr().err
    assert {row["domain"] for row in decisions(alone).values()} == {None}


def test_removed_parquet_says_when_and_why_and_nothing_of_the_picture(tars: Path) -> None:
    row = decisions(tars)["c"]
    assert privsieve("release", "takedown", tars, asked(tars, "c"), "--received", "9999-11-02") == 2
    options = ("--received", "2026-11-02", "--why", "objection")
    assert privsieve("release", "takedown", tars, asked(tars, "c"), *options) == 0
    assert privsieve("release", "takedown", tars, asked(tars, "b")) == 0
    table = pq.read_table(tars / "removed.parquet")
    first, second = table.to_pylist()
    assert first == {
        **{name: row[name] for name in ("shard", "key", "released_sha256")},
        **{"received": date(2026, 11, 2), "done": date.today(), "why": "objection", "by": "key"},
    }
    assert (second["key"], second["received"], second["why"]) == ("b", None, None)
    assert privsieve("release", "verify", tars) == 0
    (tars / "removed.parquet").write_bytes(b"")
    assert privsieve("release", "verify", tars) == 1


def test_what_another_release_removed_is_a_list_too(
    tars: Path, releases: dict[str, Path], tmp_path: Path, capsys: Capture
) -> None:
    assert (
        privsieve("release", "takedown", tars, asked(tars, "c", "b"), "--received", "2026-11-02", "--why", "erasure")
        == 0
    )
    other = tmp_path / "other"
    shutil.copytree(releases["tars-clean"], other)
    assert privsieve("release", "takedown", other, tars / "removed.parquet") == 0
    assert not {"b", "c"} & set(held(other, "tars"))
    rows = pq.read_table(other / "removed.parquet").to_pylist()
    assert {(row["key"], row["received"], row["why"]) for row in rows} == {
        ("b", date(2026, 11, 2), "erasure"),
        ("c", date(2026, 11, 2), "erasure"),
    }
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes((tars / "removed.parquet").read_bytes()[:-40])
    for file in (damaged, tars / "not-for-publication/decisions.parquet"):
        capsys.readouterr()
        assert privsieve("release", "takedown", other, file) == 2
        assert f"{file} is Parquet, and not the removed.parquet of a release, or it is damaged" in (
            capsys.readouterr().err
        )


def test_counts_of_what_was_not_scanned_follow_a_takedown(releases: dict[str, Path], tmp_path: Path) -> None:
    """The pictures c (frames after the 16th) and b and f (data behind the end) hold such content."""
    for name in ("tars-as-is", "tars-clean"):
        release = tmp_path / name
        shutil.copytree(releases[name], release)
        before = json.loads((release / "release.json").read_text())
        assert privsieve("release", "takedown", release, asked(release, "c", "d")) == 0
        after = json.loads((release / "release.json").read_text())
        which = "num_unseen_removed" if name == "tars-clean" else "num_unseen_kept"
        assert (before[which], after[which]) == (3, 2)
        assert (before["unseen_kept"].get("frames"), after["unseen_kept"].get("frames")) == (
            (None, None) if name == "tars-clean" else (1, None)
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tars-as-is", "tree-clean", "parquet-clean"])
def test_wherever_it_stops_the_release_is_the_old_one_or_the_next_takedown_ends_it(
    releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    request = TakedownRequest(str(tmp_path / name), str(asked(tmp_path / name, "c", "c.gif")))
    whole, ended = dict[str, bytes](), list[RemovalResult]()
    for number in range(1, 60):
        release = tmp_path / name
        shutil.rmtree(release, ignore_errors=True)
        shutil.copytree(releases[name], release)
        undo = stopped_at(monkeypatch, number, "jobs.releases.journal")
        try:
            result = run_takedown(request)
            is_done = True
        except StorageError:
            is_done = False
        undo()
        (release / RELEASE_LEASE).unlink(missing_ok=True)
        if not is_done and not (release / TAKEDOWN_JOURNAL).exists():
            shutil.rmtree(release / TAKEDOWN_STAGED, ignore_errors=True)
            assert files(release) == files(releases[name])
        has_begun = (release / TAKEDOWN_JOURNAL).exists()
        again = run_takedown(request)
        ended += [again] if has_begun else []
        assert privsieve("release", "verify", release) == 0
        whole = whole or files(release)
        assert files(release) == whole
        if is_done:
            assert len(ended) > 5
            assert all(again == result for again in ended)
            return
    raise AssertionError("it never came to its end")


JOURNAL = {"folder": "a", "replaced": {}, "removed": [], "command": "0" * 64, "result": {}}


def test_an_unfinished_takedown_is_said_by_verify(tars: Path, capsys: Capture) -> None:
    (tars / TAKEDOWN_JOURNAL).write_text(json.dumps(JOURNAL))
    assert privsieve("release", "takedown", tars, asked(tars, "a"), "--dry-run") == 2
    assert "a takedown or apply is unfinished; run the same command again" in capsys.readouterr().err
    capsys.readouterr()
    assert privsieve("release", "verify", tars) == 1
    assert capsys.readouterr().out == "a takedown is unfinished; run the same takedown again\n"
    assert privsieve("release", "takedown", tars, asked(tars, "nothing of it")) == 1
    assert privsieve("release", "verify", tars) == 0


@pytest.mark.parametrize(
    ("journal", "message"),
    [
        ("{", "takedown.unfinished.json is damaged; restore the release from a copy"),
        (json.dumps(JOURNAL | {"removed": ["../secret"]}), "takedown.unfinished.json is damaged"),
        (json.dumps(JOURNAL | {"folder": ".."}), "takedown.unfinished.json is damaged"),
        (
            json.dumps(JOURNAL | {"replaced": {"0.tar": "0" * 64}}),
            "0.tar is not what the takedown wrote, and its copy below takedown.unfinished/ is gone",
        ),
    ],
)
def test_what_an_unfinished_takedown_says_is_not_trusted(
    tars: Path, capsys: Capture, journal: str, message: str
) -> None:
    (tars.parent / "secret").write_text("stays")
    before = files(tars)
    (tars / TAKEDOWN_JOURNAL).write_text(journal)
    capsys.readouterr()
    assert privsieve("release", "takedown", tars, asked(tars, "a")) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    (tars / TAKEDOWN_JOURNAL).unlink()
    assert files(tars) == before
    assert (tars.parent / "secret").read_text() == "stays"


def test_of_two_takedowns_that_both_got_the_lease_only_the_later_one_changes_the_release(
    tars: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The other one begins, and ends, just before the first would put its files into place."""
    confirm, first = Lease.confirm, asked(tars, "c")
    second = tars.parent / "second.txt"
    second.write_text("b\n")

    def confirmed(held: Lease) -> None:
        monkeypatch.setattr(Lease, "confirm", confirm)
        (tars / RELEASE_LEASE).unlink()
        assert privsieve("release", "takedown", tars, second) == 0
        confirm(held)

    monkeypatch.setattr(Lease, "confirm", confirmed)
    assert privsieve("release", "takedown", tars, first) == 1
    assert "another command has taken this run over" in capsys.readouterr().err
    assert privsieve("release", "verify", tars) == 0
    assert {key: row["rule"] for key, row in decisions(tars).items() if row["rule"] == "(takedown)"} == {
        "b": "(takedown)"
    }
    assert not list(tars.glob("takedown*"))


def test_two_takedowns_at_once_are_refused(tars: Path, capsys: Capture) -> None:
    before = files(tars)
    with lease(place(str(tars)).at(RELEASE_LEASE), str(tars), takeover=None):
        assert privsieve("release", "takedown", tars, asked(tars, "a")) == 2
    assert f"{tars} is being worked on by process " in capsys.readouterr().err
    assert files(tars) == before


IS_TEXT = "LIST is a text file with one picture a line: its sha256, its key, SHARD/KEY, its URL, domain and a domain, "


def test_what_cannot_be_done_is_one_line_and_changes_nothing(tars: Path, tmp_path: Path, capsys: Capture) -> None:
    before = files(tars)
    cases = {
        "# nobody\n": f"names no picture; {IS_TEXT}",
        "\udcff": f"is not text in UTF-8; {IS_TEXT}",
        f"a\npdq {'0' * 63}\n": "list.txt, line 2: a PDQ hash has 64 hexadecimal digits",
        f"pdq {'0' * 128}\n": "list.txt, line 1: a PDQ hash has 64 hexadecimal digits",
    }
    for text, message in cases.items():
        (tmp_path / "list.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
        assert privsieve("release", "takedown", tars, tmp_path / "list.txt") == 2
        assert message in capsys.readouterr().err
    assert privsieve("release", "takedown", tmp_path, asked(tars, "a")) == 2
    assert "is no finished release: it has no release.json" in capsys.readouterr().err
    assert privsieve("release", "takedown", tars, "a.jpg") == 2  # a key
    assert f"LIST a.jpg cannot be read: no such file or directory; {IS_TEXT}" in capsys.readouterr().err
    (tars / "0.tar").write_bytes(b"something else")
    assert privsieve("release", "takedown", tars, asked(tars, "b")) != 0
    (tars / "0.tar").write_bytes(before["0.tar"])
    assert files(tars) == before
