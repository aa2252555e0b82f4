"""Which pictures are asked and shown, and which never are."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.machine import install_command
from jobs.runtime.pictures import PictureRef, Pictures
from jobs.runtime.progress import SILENT
from jobs.serving.review.reviewing import result_of
from reports.report.opened import open_run
from scoring.runs.record import RunRecord
from scoring.runs.source import source_of
from tests.audits import write_drawn
from tests.ingest.made import webp
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.nasty import bomb_header, bomb_real_400mp
from tests.reviewing.made import Person, pdq, run_of, served, smaller_and_mirrored
from tests.tuning_sets.made import drawn, files, parquet, sha256, tree, webdataset

Capture = pytest.CaptureFixture[str]


def _read(record: RunRecord, rows: pa.Table) -> list[bytes | None]:
    """The encoded picture of each row; None if it is gone or no longer the one that was scanned."""
    columns = (rows[name].to_pylist() for name in ("shard", "index", "sha256", "key"))
    wanted = [PictureRef(*row) for row in zip(*columns, strict=True)]
    pictures = Pictures(source_of(record), wanted)
    read = [pictures.read(where) for where in wanted]
    return [picture.encoded if picture.state == "found" else None for picture in read]


@pytest.mark.parametrize("corpus", [webdataset, tree, parquet], ids=lambda make: make.__name__)
def test_the_picture_of_a_row_is_read_from_any_source(corpus, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    contents = files(7)
    source = corpus(tmp_path / "corpus", contents)
    scan_in_process(source, tmp_path / "run")
    with open_run(str(tmp_path / "run")) as run:
        rows = run.rows(["shard", "index", "sha256", "key"]).take(pa.array([5, 0, 3]))
        assert [sha256(one or b"") for one in _read(run.record, rows)] == rows["sha256"].to_pylist()
        other = rows.set_column(2, "sha256", pa.array(["0" * 64, None, rows["sha256"][2].as_py()]))
        assert [one is None for one in _read(run.record, other)] == [True, True, False]
        gone = rows.set_column(0, "shard", pa.array(["x", "y", "z"]))
        assert _read(run.record, gone) == [None] * 3


def test_a_picture_is_encoded_anew_without_what_its_file_says_of_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    buffer = io.BytesIO()
    Image.open(io.BytesIO(drawn(1))).convert("RGB").resize((1800, 540)).save(buffer, "JPEG", exif=exif)
    run = run_of(tmp_path, {"a.jpg": buffer.getvalue()})
    with served(run, reviewer="ana") as server:
        picture = Person(server.address).get("/api/picture/0")
        assert b"secret place" in buffer.getvalue()
        assert b"secret place" not in picture.content
        assert b"Exif" not in picture.content
        assert Image.open(io.BytesIO(picture.content)).size == (1600, 480)


def test_changed_gone_and_broken_pictures_are_counted_and_not_shown(tmp_path: Path) -> None:
    contents = {**files(4), "broken.png": drawn(9)[:200]}
    source = tree(tmp_path / "corpus", contents)
    scan_in_process(source, tmp_path / "run")
    (source / "000.png").write_bytes(drawn(5))
    with served(tmp_path / "run", reviewer="ana") as server:
        (source / "001.png").unlink()
        ana = Person(server.address)
        keys = server.page.asking.rows["key"].to_pylist()
        seen = {key: ana.look(number) for number, key in enumerate(keys)}
        states = {key: state for key, state in seen.items() if isinstance(state, str)}
        assert states == {"000.png": "changed", "001.png": "gone", "broken.png": "undecodable"}
        assert ana.say(keys.index("000.png"), "private").status == 400
        assert ana.say_all("public") == 2
        assert ana.get("/api/progress").json["not_shown"] == {"changed": 1, "gone": 1, "undecodable": 1}


def test_a_bomb_is_not_decoded_for_a_reviewer_either(tmp_path: Path) -> None:
    bombs = {"header.png": bomb_header(), "pixels.png": bomb_real_400mp(), "canvas.webp": webp(1_048_632, 80)}
    scan_in_process(tree(tmp_path / "corpus", files(2) | bombs), tmp_path / "run")
    with served(tmp_path / "run", reviewer="ana") as server:
        ana = Person(server.address)
        keys = server.page.asking.rows["key"].to_pylist()
        states = {key: ana.look(keys.index(key)) for key in bombs}
        assert states == dict.fromkeys(bombs, "undecodable")
        assert ana.say_all("public") == 2


def test_what_is_on_the_hash_list_is_never_shown_answered_or_named(tmp_path: Path) -> None:
    contents = {f"name{n}.png": drawn(n) for n in range(8)} | {"copy.jpg": smaller_and_mirrored(drawn(5))}
    run = run_of(tmp_path, contents)
    listed = [f"# ours\n\nsha256:{sha256(contents['name2.png'])}", pdq(contents["name5.png"]).upper()]
    (tmp_path / "list.txt").write_text("\n".join(listed))
    notices = list[str]()
    feedback = replace(SILENT, notice=notices.append)
    with served(run, reviewer="ana", hash_list=str(tmp_path / "list.txt"), seed=3, feedback=feedback) as server:
        assert notices[-1] == "8 pictures: those that fit the condition; 1 more picture on the hash list, never shown"
        ana = Person(server.address)
        keys = server.page.asking.rows["key"].to_pylist()
        hidden = {number for number, key in enumerate(keys) if key in ("name2", "name5", "copy")}
        for number in hidden:
            assert ana.look(number) == "listed"
            refused = ana.say(number, "private")
            assert refused.status == 400
            assert keys[number] not in refused.content.decode()
        assert ana.say_all("public") == 6
        says = ana.get("/api/progress")
        assert says.json["not_shown"] == {"listed": 3}
        assert not [key for key in ("name2", "name5", "copy") if key.encode() in says.content]
    (part,) = (run / "reviews").glob("*.parquet")
    assert set(pq.read_table(part)["key"].to_pylist()) == set(keys) - {"name2", "name5", "copy"}


def test_the_queue_is_the_drawn_sample_if_there_is_one(run: Path, capsys: Capture) -> None:
    assert privsieve("review", run, "--queue", "audit") == 2
    assert "has no audit sample; draw one with: privsieve audit sample" in capsys.readouterr().err
    with open_run(str(run)) as opened:
        rows = opened.rows(["shard", "index", "key", "sha256"]).slice(1, 3)
    drawn = rows.append_column("inclusion_probability", pa.array([0.5] * 3))
    write_drawn(str(run), drawn, num_rows=6)
    with served(run, None, reviewer="ana") as server:
        ana = Person(server.address)
        assert sorted(server.page.asking.rows["key"].to_pylist()) == sorted(rows["key"].to_pylist())
        first, second = ana.next()[:2]
        ana.say(first, "private")
        ana.say(second, "unclear")
        enough = ana.get("/api/progress").json["enough"]
        assert (enough["answered"], enough["drawn"]) == (1, 3)
        Person(server.address, "ben").say_all("private")
        assert result_of(server.page).next_commands == (f"privsieve audit apply {run} {run}/reviews",)
        low, high = enough["interval"]
        assert 0 <= low < high == 1
    with served(run, "audit", num_pictures=1) as server:
        assert server.page.asking.rows["key"].to_pylist() == [rows["key"][0].as_py()]
    write_drawn(str(run), drawn.set_column(3, "sha256", pa.array(["0" * 64] * 3)), num_rows=6)
    assert privsieve("review", run) == 2
    assert "the audit sample is of another state of the run" in capsys.readouterr().err


def test_the_queue_is_what_is_near_the_decision(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(12))
    with open_run(str(run)) as opened:
        near = opened.sql(
            "SELECT sha256 FROM images WHERE level NOT IN (1, 2) AND (unknown_level <= 2 OR greatest(biometrics, "
            "gov_ids, unique_body_markings, contact_details, full_legal_name, non_unique_id, medical_data, "
            "financial_data, beliefs, nudity, disability, emotion_mental_health, race_ethnicity) = 0.5)"
        )["sha256"].to_pylist()
    with served(run, "borderline") as server:
        asked = server.page.asking.hashes
        assert near
        assert set(near) <= set(asked)
        assert len(asked) < 12
    with served(run, "borderline", num_pictures=len(near)) as server:
        assert sorted(server.page.asking.hashes) == sorted(near)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queue", "levl = 1"], 'a SQL condition; no column "levl" (did you mean "level"?)'),
        (["--queue", "index < 0"], "no picture fits the condition; give another --queue"),
        (
            ["--queue", "(SELECT 1) = 1"],
            "--queue is audit, borderline, guard, a file of labels or a SQL condition; subquery is not allowed",
        ),
        (["--as", " "], "a reviewer's name has 1 to 80 printable characters"),
        (["--gold", "absent.csv"], "absent.csv cannot be read"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(run: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    assert privsieve("review", run, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_without_the_extra_one_line_says_how_to_install_it(
    run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert privsieve("review", run) == 2
    assert f"review needs the package uvicorn: {install_command('review')}" in capsys.readouterr().err
