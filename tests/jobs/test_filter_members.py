"""What lies beside a picture, as a user who filters sees it: the setting, the counts, and what is dropped as unsafe."""

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import KEEP_ALL, decided, files, released

UNSAFE = "(unsafe_member)"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tars: one of a plain sample and some with odd members, one of a single picture, and one with an odd name."""
    folder = tmp_path_factory.mktemp("corpora") / "source"
    folder.mkdir()
    link = tarfile.TarInfo("2.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    members = {
        "0.jpg": jpeg(0),
        "0.txt": b"words",
        "1.jpg": jpeg(1),
        "1.npy": b"\x93NUMPY",
        "./1.jpg": jpeg(4),
        "3.jpg": jpeg(3),
        "3.txt": b"caf\xe9",
        "2.jpg": jpeg(2),
    }
    tar(folder / "00000.tar", members)
    with tarfile.open(folder / "00000.tar", "a") as archive:
        archive.addfile(link)
    tar(folder / "00001.tar", {"6.jpg": jpeg(6)})
    tar(folder / "bad\tname.tar", {"5.jpg": jpeg(5)})
    return folder


@pytest.fixture(scope="module")
def run(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("runs") / "run"
    scan_in_process(source, where)
    return where


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "keep-all.yaml").write_text(KEEP_ALL)
    return tmp_path / "keep-all.yaml"


def names(out: Path) -> list[str]:
    with tarfile.open(out / "00000.tar") as archive:
        return archive.getnames()


def test_unsafe_samples_are_dropped_and_what_stayed_behind_is_counted(
    run: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ("filter", run, "--policy", policy, "--out", out)
    assert privsieve(*args, "--dry-run") == 0
    setting = "members: listed (text and JSON go with an image, of a table columns of text, numbers and times)\n"
    assert capsys.readouterr().out.endswith(f"of 7 images 7 would be kept, 0 kept and flagged, 0 dropped\n{setting}")
    assert privsieve(*args) == 0
    output = capsys.readouterr().out
    assert f"drop         3  {UNSAFE}\n" in output
    assert (
        'policy "keep-all": of 7 images 4 were kept, 0 kept and flagged, 3 dropped\n'
        f"{setting}left out next to the images: 1 npy, 1 txt\n"
    ) in output
    assert names(out) == ["0.jpg", "0.txt", "1.jpg", "3.jpg"]
    assert released(out).keys() == {"00000.tar", "00001.tar"}
    summary = json.loads((out / "release.json").read_text())
    assert summary["members"] == "listed"
    assert summary["members_left_out"] == {"npy": 1, "txt": 1}
    assert summary["actions"] == {"keep": 4, "flag": 0, "redact": 0, "drop": 3}
    rows = pq.read_table(out / "not-for-publication/decisions.parquet").to_pylist()
    assert {(row["shard"], row["key"]): row["reason"] for row in rows if row["rule"] == UNSAFE} == {
        ("00000.tar", "2"): "a member is a link, a device or a sparse file",
        ("00000.tar", "./1"): "a member has the name of another file or folder of the release",
        ("bad\\tname.tar", "5"): "its shard has control characters in its name",
    }
    scan_in_process(out, tmp_path / "again")


@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_a_name_that_is_not_utf_8_is_not_released_and_loaders_can_read_the_rest(
    policy: Path, tmp_path: Path, kind: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    pictures = {"caf\udce9.jpg": jpeg(0), "plain.jpg": jpeg(1)}
    if kind == "tar":
        tar(source / "00000.tar", pictures)
    else:
        for name, content in pictures.items():
            (source / name).write_bytes(content)
    scan_in_process(source, tmp_path / "run")
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", out) == 0
    assert privsieve("release", "verify", out) == 0
    (dropped,) = [
        r for r in pq.read_table(out / "not-for-publication/decisions.parquet").to_pylist() if r["action"] == "drop"
    ]
    assert (dropped["rule"], dropped["key"][:7]) == (UNSAFE, "caf\\xe9")
    assert dropped["reason"].endswith("has a name that is not valid UTF-8")
    released_names = names(out) if kind == "tar" else [file.name for file in out.rglob("*.jpg")]
    assert released_names == ["plain.jpg"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [("image-only", ["0.jpg", "1.jpg", "3.jpg"]), ("all", ["0.jpg", "0.txt", "1.jpg", "1.npy", "3.jpg", "3.txt"])],
)
def test_a_policy_may_ask_for_less_or_for_more(
    run: Path, policy: Path, tmp_path: Path, members: str, expected: list[str]
) -> None:
    policy.write_text(f"{KEEP_ALL}members: {members}\n")
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "out") == 0
    assert names(tmp_path / "out") == expected
    assert json.loads((tmp_path / "out" / "release.json").read_text())["members"] == members


def interrupt(source: Path, *args: object) -> None:
    """A filter that ends early, since the last shard has changed; then the shard is what it was."""
    last = source / "00001.tar"
    intact = last.read_bytes()
    last.write_bytes(intact.replace(jpeg(6), jpeg(7)[: len(jpeg(6))].ljust(len(jpeg(6)))))
    try:
        assert privsieve(*args) == 1
    finally:
        last.write_bytes(intact)


def test_a_filter_that_is_continued_tells_of_what_it_dropped_before(
    source: Path, run: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    args = ("filter", run, "--policy", policy, "--out")
    assert privsieve(*args, whole) == 0
    output = capsys.readouterr().out
    interrupt(source, *args, out)
    stamp = (out / "00000.tar").stat().st_mtime_ns
    capsys.readouterr()
    assert privsieve(*args, out, "--resume") == 0
    assert capsys.readouterr().out == output.replace(str(whole), str(out))
    assert (out / "00000.tar").stat().st_mtime_ns == stamp
    assert files(out) == files(whole)
    assert decided(out)["2"] == ("drop", UNSAFE)


def test_a_table_s_other_pictures_stay_behind(tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    source.mkdir()
    pictures = [jpeg(n) for n in range(3)]
    table = {"image": pictures, "scene": ["a", "b", "c"], "caption": ["x"] * 3, "thumbnail": pictures}
    pq.write_table(pa.table(table), source / "a.parquet")
    scan_in_process(source, run, category="scene", image_columns=("image",))
    assert privsieve("filter", run, "--policy", policy, "--out", out) == 0
    assert pq.read_table(out / "a.parquet").schema.names == ["image", "scene", "caption"]
    assert "left out next to the images: 3 values of the column thumbnail\n" in capsys.readouterr().out
    policy.write_text(f"{KEEP_ALL}members: image-only\n")
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "alone") == 0
    assert pq.read_table(tmp_path / "alone" / "a.parquet").schema.names == ["image", "scene"]
    summary = json.loads((tmp_path / "alone" / "release.json").read_text())
    assert summary["members_left_out"] == {"column caption": 3, "column thumbnail": 3}
