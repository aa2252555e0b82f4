"""Small corpora and their finished runs; small releases; tests about Ray join a head."""

import io
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, shard, tar
from tests.jobs.releases import CLEAN, DEMO, FIRST_DROPPED, make_corpus, with_policy
from tests.making import Folders, Request
from tests.nasty import encoded

LAYOUTS = ("tars", "tree", "parquet")


@pytest.fixture(autouse=True)
def joining(request: Request) -> None:
    """Tests marked `ray` join the head, unless the mark says `own=True`. All others scan in this process."""
    mark = request.node.get_closest_marker("ray")
    if mark is not None and not mark.kwargs.get("own"):
        request.getfixturevalue("joining_head")


@pytest.fixture(scope="package")
def corpus(tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    shard(folder / "00000.tar", 0, 20)
    shard(folder / "00001.tar", 20, 15)
    return folder


@pytest.fixture(scope="package")
def scanned(corpus: Path, tmp_path_factory: Folders) -> Path:
    """Not to be changed: copy it."""
    run = tmp_path_factory.mktemp("runs") / "run"
    assert privsieve("scan", corpus, "--run", run, "--engine", "canned") == 0
    return run


@pytest.fixture(scope="module")
def releases(tmp_path_factory: Folders) -> dict[str, Path]:
    """For each layout, a release as it is and one that is cleaned."""
    folder = tmp_path_factory.mktemp("releases")
    made = {}
    for layout in LAYOUTS:
        source, run = make_corpus(folder, layout), folder / f"run-{layout}"
        scan_in_process(source, run, max_frames=16)
        for name, text in (("as-is", FIRST_DROPPED), ("clean", CLEAN)):
            made[f"{layout}-{name}"] = folder / f"{layout}-{name}"
            policy = with_policy(folder, text)
            assert privsieve("filter", run, "--policy", policy, "--out", made[f"{layout}-{name}"], "--quiet") == 0
    return made


@pytest.fixture(params=[f"{layout}-{files}" for layout in LAYOUTS for files in ("as-is", "clean")])
def release(request: Request, releases: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of one of the releases; its name says which."""
    shutil.copytree(releases[request.param], tmp_path / request.param)
    return tmp_path / str(request.param)


@pytest.fixture
def tars(releases: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(releases["tars-as-is"], tmp_path / "tars-as-is")


@pytest.fixture(scope="package")
def seen(tmp_path_factory: Folders) -> Path:
    """A run of the detectors over a face, the same in three frames, a visiting card and a picture of nobody."""
    source = tmp_path_factory.mktemp("seen") / "source"
    source.mkdir()
    woman = Image.open(DEMO / "portrait" / "woman.jpg")
    woman.thumbnail((500, 500))
    (source / "woman.jpg").write_bytes(encoded(woman, "JPEG", quality=90))
    (source / "woman.png").write_bytes(encoded(woman, "PNG"))
    turned = Image.Exif()
    turned[0x0112] = 6
    (source / "turned.jpg").write_bytes(
        encoded(woman.transpose(Image.Transpose.ROTATE_90), "JPEG", quality=90, exif=turned.tobytes())
    )
    with io.BytesIO() as target:
        woman.save(target, "GIF", save_all=True, append_images=[woman.rotate(2), woman.rotate(4)])
        (source / "frames.gif").write_bytes(target.getvalue())
    (source / "coins.png").write_bytes((DEMO / "object" / "coins.png").read_bytes())
    run = source.parent / "run"
    assert privsieve("scan", source, "--run", run) == 0
    return run


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder that --environment refuses: the rows are selected, and nothing is downloaded."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "diary.txt").write_text("mine")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: Folders) -> Path:
    """120 pictures of one colour each, and one that cannot be decoded; for guarantees."""
    folder = tmp_path_factory.mktemp("guarantee")
    (folder / "crawl").mkdir()
    pictures = {f"{n:05d}.jpg": jpeg(n) for n in range(120)}
    tar(folder / "crawl" / "00000.tar", pictures | {"99999.jpg": b"<html>not found</html>"})
    scan_in_process(folder / "crawl", folder / "run")
    return folder / "run"
