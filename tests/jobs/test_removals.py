"""Near pictures, in releases and in copies of their shards: `takedown`, `release apply` and `lookup`."""

import hashlib
import json
import re
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.formats.released import RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED
from jobs.releases.files import REMOVED_SCHEMA
from tests.hash_list.listed import picture
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import COVER, FIRST_DROPPED, KEEP_ALL, asked, files, stopped_at, with_policy
from tests.making import Capture, Folders, Patch, Request
from tests.nasty import encoded

LAYOUTS = ("tars", "tree", "parquet")


def copy_of(seed: int) -> bytes:
    """Smaller, mirrored and compressed."""
    return encoded(picture(seed).resize((240, 200)).transpose(Image.Transpose.FLIP_LEFT_RIGHT), "JPEG", quality=70)


PICTURES = {
    "one.png": encoded(picture(1), "PNG"),
    "one-smaller.jpg": copy_of(1),
    "three.png": encoded(picture(3), "PNG"),
    "broken.png": encoded(picture(4), "PNG")[:400],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Folders) -> dict[str, Path]:
    """A release in each layout."""
    folder = tmp_path_factory.mktemp("near")
    releases = dict[str, Path]()
    for layout in LAYOUTS:
        source = folder / layout
        source.mkdir()
        if layout == "tars":
            texts = {f"{name.partition('.')[0]}.txt": b"a caption" for name in PICTURES}
            url = {"three.json": json.dumps({"url": "https://www.example.org/3.png"}).encode()}
            tar(source / "0.tar", dict(sorted({**PICTURES, **texts, **url}.items())))
            tar(source / "1.tar", {"five.png": encoded(picture(5), "PNG")})
        elif layout == "tree":
            for name, content in {**PICTURES, "three.txt": b"a caption", "one.json": b"{}"}.items():
                (source / name).write_bytes(content)
        else:
            images = [{"bytes": content, "path": name} for name, content in PICTURES.items()]
            pq.write_table(pa.table({"image": images}), source / "0.parquet")
        scan_in_process(source, folder / f"run-{layout}", max_frames=16)
        releases[layout] = folder / f"release-{layout}"
        options = ("--policy", with_policy(folder, KEEP_ALL), "--out", releases[layout], "--quiet")
        assert privsieve("filter", folder / f"run-{layout}", *options) == 0
    return releases


OWN = {"release.json", "not-for-publication", "README.md", "croissant.json", "SHA256SUMS"}


@pytest.fixture(params=LAYOUTS)
def release(request: Request, whole: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(whole[request.param], tmp_path / request.param)
    return tmp_path / str(request.param)


@pytest.fixture
def shards(release: Path) -> Path:
    """A copy of the shards alone."""
    copy = release.parent / "copy" / release.name
    shutil.copytree(release, copy, ignore=lambda folder, names: OWN)
    return copy


def shards_of(release: Path) -> dict[str, bytes]:
    own = {*OWN, "removed.parquet"}
    return {name: content for name, content in files(release).items() if name.partition("/")[0] not in own}


@pytest.fixture
def tars(whole: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(whole["tars"], tmp_path / "tars")


def keys(folder: Path, layout: str) -> set[str]:
    if layout == "tree":
        return {path.name for path in folder.iterdir() if path.name not in OWN and path.suffix != ".parquet"}
    if layout == "parquet":
        return {image["path"] for image in pq.read_table(folder / "0.parquet")["image"].to_pylist()}
    return {name for path in folder.glob("*.tar") for name in tarfile.open(path).getnames()}


def looked_up(folder: Path, content: bytes, capsys: Capture) -> list[str]:
    """SHARD/KEY of each picture that lookup finds."""
    photo = folder.parent / "photo"
    photo.write_bytes(content)
    capsys.readouterr()
    privsieve("release", "lookup", folder, photo, "--quiet")
    lines = capsys.readouterr().out.splitlines()
    return [line.split()[1] for line in lines if line.startswith(("released", "found"))]


@pytest.mark.parametrize("layout", [*LAYOUTS, "parquet without keys"])
def test_a_copy_loses_the_removed_picture_and_not_its_equal(layout: str, tmp_path: Path, capsys: Capture) -> None:
    """Also where its shards have other names, and when the list is applied again. Without keys, rows of Parquet cannot
    be told apart, so that all equal pictures of the shard go, or of all shards if none has its name."""
    source, release = tmp_path / "source", tmp_path / "release"
    source.mkdir()
    dropped, equal, other = PICTURES["three.png"], PICTURES["one.png"], encoded(picture(6), "PNG")
    for shard in ("0", "1"):
        pictures = {"a.png": dropped, f"b{shard}.png": equal, f"c{shard}.png": equal, "d.png": other}
        if layout == "tars":
            tar(source / f"{shard}.tar", pictures)
        elif layout == "tree":
            (source / shard).mkdir()
            for name, content in pictures.items():
                (source / shard / name).write_bytes(content)
        else:
            path = {} if layout.endswith("without keys") else {"path": [*pictures]}
            table = pa.table({"image": pa.array([*pictures.values()], pa.binary()), "n": range(4), **path})
            pq.write_table(table, source / f"{shard}.parquet")
    scan_in_process(source, tmp_path / "run")
    policy = with_policy(tmp_path, FIRST_DROPPED)
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", release, "--quiet") == 0
    copies = {shard: tmp_path / f"copy {shard}" for shard in ("0", "x")}
    for shard, copy in copies.items():
        shutil.copytree(release, copy, ignore=lambda folder, names: OWN)
        [there] = copy.glob("0*")
        there.rename(there.with_name(there.name.replace("0", shard)))
    [first] = (
        row
        for row in pq.read_table(release / "not-for-publication/decisions.parquet").to_pylist()[:4]
        if row["index"] == 2
    )
    assert privsieve("release", "takedown", release, asked(release, f"{first['shard']}/{first['key']}"), "--quiet") == 0
    for shard, copy in copies.items():
        num_gone = 1 if layout in LAYOUTS else {"0": 2, "x": 4}[shard]
        for num_pictures in (num_gone, 0):
            capsys.readouterr()
            assert privsieve("release", "apply", copy, release / "removed.parquet", "--quiet") == 0
            output = capsys.readouterr().out
            assert output.startswith(f"{num_pictures} picture")
            assert ("copies with the same bytes stay, " in output) == (num_gone < 4), output
        if num_gone == 1:
            assert files(copy) == {re.sub("^0", shard, n): content for n, content in shards_of(release).items()}


def test_tars_that_were_extracted_lose_the_picture(tars: Path, tmp_path: Path, capsys: Capture) -> None:
    """Files have extensions, which keys of tars have not."""
    for shard in (0, 1):
        with tarfile.open(tars / f"{shard}.tar") as archive:
            archive.extractall(tmp_path / "extracted" / str(shard), filter="data")
    before = files(tmp_path / "extracted")
    assert privsieve("release", "takedown", tars, asked(tars, "three"), "--quiet") == 0
    capsys.readouterr()
    assert privsieve("release", "apply", tmp_path / "extracted", tars / "removed.parquet", "--quiet") == 0
    assert capsys.readouterr().out.startswith("1 picture in 1 shard was removed; ")
    gone = before.keys() - files(tmp_path / "extracted").keys()
    assert gone == {f"0/three.{end}" for end in ("png", "txt", "json")}


def test_wherever_a_removal_stops_the_same_command_ends_it(
    tars: Path, whole: dict[str, Path], tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    assert privsieve("release", "takedown", tars, asked(tars, "three", "five"), "--quiet") == 0
    copy, states = tmp_path / "copy", set[str]()
    command = ("release", "apply", copy, tars / "removed.parquet", "--quiet")
    for number in range(1, 60):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole["tars"], copy, ignore=lambda folder, names: OWN)
        before = files(copy)
        undo = stopped_at(monkeypatch, number, "jobs.releases.journal")
        code = privsieve(*command)
        undo()
        (copy / RELEASE_LEASE).unlink(missing_ok=True)
        if code == 0:
            assert states == {"not begun", "to be ended"}
            return
        state = "to be ended" if (copy / TAKEDOWN_JOURNAL).exists() else "not begun"
        if state == "to be ended":
            assert privsieve(*command, "--dry-run") == 2
            assert "a takedown or apply is unfinished; run the same command again" in capsys.readouterr().err
        else:
            assert files(copy).items() >= before.items()
        states.add(state)
        capsys.readouterr()
        assert privsieve(*command) == 0
        num = {"not begun": "2 pictures in 2", "to be ended": "0 pictures in 0"}[state]
        assert capsys.readouterr().out.startswith(f"{num} shards were removed; the list has 2 lines\n  ")
        assert files(copy) == shards_of(tars)
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("command", ["takedown", "apply"])
def test_a_folder_of_a_stranger_that_holds_a_link_is_refused(
    tars: Path, tmp_path: Path, command: str, capsys: Capture
) -> None:
    """Its journal would write, remove and publish through the link."""
    outside, copy, listed = tmp_path / "home", tmp_path / "copy", asked(tars, "three")
    if command == "apply":
        pq.write_table(REMOVED_SCHEMA.empty_table(), listed)
    (outside / ".ssh").mkdir(parents=True)
    (outside / ".ssh" / "authorized_keys").write_text("mine")
    (outside / "secret.txt").write_text("stays")
    kept = files(outside)
    for name in ("ext", "a/b/c/ext", f"{TAKEDOWN_STAGED}/x/ext", TAKEDOWN_STAGED, "0.tar", RELEASE_LEASE):
        for target in (outside, outside / "none"):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(tars, copy, ignore=lambda folder, names: OWN if command == "apply" else ())
            through = f"{name.removeprefix(f'{TAKEDOWN_STAGED}/x/')}/.ssh/authorized_keys"
            staged = copy / TAKEDOWN_STAGED / "x" / through
            if not name.startswith(TAKEDOWN_STAGED):
                staged.parent.mkdir(parents=True)
                staged.write_text("theirs")
            (copy / name).unlink(missing_ok=True)
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).symlink_to(target)
            replaced = {through: hashlib.sha256(b"theirs").hexdigest()}
            journal = {"folder": "x", "replaced": replaced, "removed": [f"{name}/secret.txt", name]}
            (copy / TAKEDOWN_JOURNAL).write_text(json.dumps(journal))
            before = files(copy)
            capsys.readouterr()
            assert privsieve("release", command, copy, listed, "--quiet") == 2
            error = capsys.readouterr().err
            assert f"{copy}: {name} is a link, and files elsewhere would be changed through it" in error
            assert error.count("\n") == 1
            assert files(copy) == before
            assert files(outside) == kept


def test_lookup_finds_a_picture_by_bytes_nearness_and_url(release: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "photo.png").write_bytes(PICTURES["one.png"])
    capsys.readouterr()
    assert privsieve("release", "lookup", release, tmp_path / "photo.png", "--quiet") == 0
    first, note = capsys.readouterr().out.splitlines()
    assert first.startswith("released    ")
    assert first.endswith("the same bytes")
    assert note == "these bytes are known to the release, so near pictures were not searched for"
    assert privsieve("release", "lookup", release, tmp_path / "photo.png", "--exact") == 0
    assert capsys.readouterr().out == f"{first}\n"
    (tmp_path / "photo.png").write_bytes(encoded(picture(1), "BMP"))
    assert privsieve("release", "lookup", release, tmp_path / "photo.png", "--quiet") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert ["one-smaller" in line for line in lines] == [False, True]
    assert all("near: " in line for line in lines)
    assert last == "1 picture of the release cannot be decoded, so not compared"
    (tmp_path / "photo.png").write_bytes(encoded(picture(9), "PNG"))
    assert privsieve("release", "lookup", release, tmp_path / "photo.png", "--quiet") == 1
    assert capsys.readouterr().out.splitlines()[0] == f"not in {release}; crops of a picture are not found"


def test_lookup_searches_a_copy_of_the_shards(shards: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "photo.jpg").write_bytes(copy_of(3))
    capsys.readouterr()
    assert privsieve("release", "lookup", shards, tmp_path / "photo.jpg", "--quiet") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("found ")  # it does not say that it is a release
    assert "three" in first
    (tmp_path / "photo.jpg").write_bytes(b"<html>")
    assert privsieve("release", "lookup", shards, tmp_path / "photo.jpg", "--quiet") == 1
    assert "the file is no picture that can be decoded, so only the same bytes were searched for" in (
        capsys.readouterr().out
    )
    if shards.name == "tars":
        assert privsieve("release", "lookup", shards, "https://www.example.org/3.png", "--quiet") == 0
        assert "0.tar/three  the same URL" in capsys.readouterr().out
    assert privsieve("release", "lookup", shards, tmp_path / "none.jpg", "--quiet") == 2
    assert "none.jpg" in capsys.readouterr().err


def test_a_covered_picture_is_found_and_taken_down_by_a_smaller_copy_of_what_was_scanned(
    tmp_path: Path, capsys: Capture
) -> None:
    """The covered files are all black, and equal: only the picture that is asked for goes."""
    source, release, photo = tmp_path / "source", tmp_path / "out", tmp_path / "photo.jpg"
    source.mkdir()
    tar(source / "0.tar", {f"{seed}.png": encoded(picture(seed), "PNG") for seed in range(6)})
    scan_in_process(source, tmp_path / "run")
    policy = with_policy(tmp_path, COVER.format(when="true", cover="image"))
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", release, "--quiet") == 0
    for seed in range(6):
        photo.write_bytes(copy_of(seed))
        capsys.readouterr()
        assert privsieve("release", "lookup", release, photo, "--quiet") == 0
        [line] = capsys.readouterr().out.splitlines()
        assert re.fullmatch(
            rf"released    0.tar/{seed}  covered; the scanned one is near: \d+ of 256 bits differ", line
        )
    photo.write_bytes(copy_of(7))
    assert privsieve("release", "lookup", release, photo, "--quiet") == 1
    assert privsieve("release", "takedown", release, asked(release, *looked_up(release, copy_of(3), capsys))) == 0
    assert privsieve("release", "verify", release, "--quiet") == 0
    assert keys(release, "tars") == {f"{seed}.png" for seed in (0, 1, 2, 4, 5)}
    table = pq.read_table(release / "not-for-publication/decisions.parquet").to_pylist()
    assert [row["key"] for row in table if row["pdq"] is None] == ["3"]
