"""`privsieve similarity compare` on small corpora."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from jobs.similarity.comparing import changed_areas
from tests.jobs.made import privsieve, tar
from tests.making import Capture, Folders
from tests.papers.test_scripts import script
from tests.similarity.made import FACE, blurred, covered_face, folder, png, scene, unchanged

compare = ("similarity", "compare")


def found(capsys: Capture, *args: object) -> dict[str, Any]:
    assert privsieve(*compare, *args, "--format", "json", "--quiet") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def rows(path: Path) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return table


@pytest.fixture(scope="module")
def originals(tmp_path_factory: Folders) -> Path:
    return folder(tmp_path_factory.mktemp("originals") / "photos", 4)


def test_a_covered_face_is_compared_with_the_face_and_not_with_the_scene_around_it(
    originals: Path, tmp_path: Path, capsys: Capture
) -> None:
    release = folder(tmp_path / "release", 4, covered_face)
    areas = found(capsys, originals, release)["sets"][0]
    whole = found(capsys, originals, release, "--part", "whole")["sets"][0]
    assert areas["name"] == whole["name"] == "release"
    assert areas["counts"] == whole["counts"] == {"compared": 4}
    assert areas["means"]["semsim"] > whole["means"]["semsim"] + 0.2
    assert areas["means"]["ssim"] < 0.3 < 0.8 < whole["means"]["ssim"]
    assert whole["num_nearest"] > areas["num_nearest"]


def test_a_slight_blur_is_found_again_and_nearer_than_a_strong_one(
    originals: Path, tmp_path: Path, capsys: Capture
) -> None:
    script("change").main([str(originals), str(tmp_path), "downscale=4"])
    folders = (folder(tmp_path / "soft", 4, blurred), tmp_path / "downscale=4")
    soft, strong = found(capsys, originals, *folders, "--part", "whole")["sets"]
    assert (soft["name"], strong["name"]) == ("soft", "downscale=4")
    assert soft["num_nearest"] == soft["num_nearest_of"] == 4
    assert soft["means"]["semsim"] < strong["means"]["semsim"]


def test_too_few_pictures_to_tell_are_not_called_unrecognised(tmp_path: Path, capsys: Capture) -> None:
    photos, soft = folder(tmp_path / "photos", 2), folder(tmp_path / "soft", 2, blurred)
    assert privsieve(*compare, photos, soft, "--part", "whole", "--quiet") == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith(
        "This comparison does not show that the changed pictures can still be recognised: in soft 100"
    )
    assert said.endswith("lead back to their own original; by chance it would be 50.0 %.")


def test_every_changed_picture_has_one_row_and_the_counts_add_up(
    originals: Path, tmp_path: Path, capsys: Capture
) -> None:
    changed = folder(tmp_path / "changed", 2, unchanged, {"a/2.png": b"\x89PNG\r\n\x1a\nrest", "b.png": png(scene(9))})
    (changed / "a" / "1.png").write_bytes(png(blurred(scene(1))))
    out = tmp_path / "pairs.parquet"
    of_set = found(capsys, originals, changed, "--out", out)["sets"][0]
    states = {row["key"]: row["state"] for row in rows(out)}
    assert states == {"a/0": "same", "a/1": "compared", "a/2": "unreadable", "b": "no_original"}
    assert of_set["counts"] == {"same": 1, "compared": 1, "unreadable": 1, "no_original": 1}
    assert of_set["num_originals_without"] == 1
    same = next(row for row in rows(out) if row["state"] == "same")
    assert {same[name] for name in ("mse", "psnr", "ssim", "semsim", "is_nearest")} == {None}
    assert of_set["num_nearest_of"] == 0, "of one pair nothing can be said"


def test_a_folder_and_a_tar_are_paired_by_key_and_another_size_is_counted(
    originals: Path, tmp_path: Path, capsys: Capture
) -> None:
    archive = tmp_path / "shard.tar"
    tar(archive, {f"{n}.png": png(scene(n).resize((160, 120))) for n in range(4)})
    of_set = found(capsys, originals, archive, "--part", "whole")["sets"][0]
    assert of_set["counts"] == {"compared": 4}
    assert of_set["num_other_size"] == 4
    assert of_set["num_nearest"] == 4


def test_keys_that_occur_twice_are_paired_by_their_folder_and_else_not_at_all(tmp_path: Path, capsys: Capture) -> None:
    for name, change in (("before", unchanged), ("after", blurred)):
        for place in ("x", "y"):
            folder(tmp_path / name / place, 1, change)
    of_set = found(capsys, tmp_path / "before", tmp_path / "after")["sets"][0]
    assert of_set["counts"] == {"compared": 2}
    tar(tmp_path / "one.tar", {"0.png": png(scene(0))})
    assert privsieve(*compare, tmp_path / "before", tmp_path / "one.tar", "--quiet") == 2
    assert "keys must be the same" in capsys.readouterr().err


def test_pictures_that_differ_by_their_extension_alone_are_told_apart(
    originals: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = folder(tmp_path / "before", 2, unchanged, {"a/0.jpg": png(scene(5))})
    after = folder(tmp_path / "after", 2, blurred, {"a/0.jpg": png(scene(5))})
    out = tmp_path / "pairs.parquet"
    of_set = found(capsys, before, after, "--out", out)["sets"][0]
    assert of_set["counts"] == {"compared": 2, "same": 1}
    assert sorted((row["key"], row["state"]) for row in rows(out)) == [
        ("a/0.jpg", "same"),
        ("a/0.png", "compared"),
        ("a/1", "compared"),
    ]
    converted = folder(tmp_path / "converted", 0, unchanged, {"a/0.webp": png(scene(0)), "a/1.jpg": png(scene(1))})
    assert found(capsys, before, converted)["sets"][0]["counts"] == {"same": 1, "no_original": 1}


def test_two_releases_of_one_name_are_told_apart(originals: Path, tmp_path: Path, capsys: Capture) -> None:
    urls = [folder(tmp_path / name / "release", 2, blurred) for name in ("monday", "friday")]
    names = [of_set["name"] for of_set in found(capsys, originals, *urls)["sets"]]
    assert names == ["monday/release", "friday/release"]


def test_a_picture_on_the_hash_list_is_counted_and_not_named(originals: Path, tmp_path: Path, capsys: Capture) -> None:
    changed, out = folder(tmp_path / "changed", 4, blurred), tmp_path / "pairs.parquet"
    listed = tmp_path / "hashes.txt"
    listed.write_text(f"sha256 {hashlib.sha256((originals / 'a' / '2.png').read_bytes()).hexdigest()}\n")
    found(capsys, originals, changed, "--hash-list", listed, "--out", out)
    withheld = [row for row in rows(out) if row["state"] == "withheld"]
    assert [row["key"] for row in withheld] == [None]
    assert "a/2" not in {row["key"] for row in rows(out)}


def test_the_same_seed_draws_the_same_originals_and_the_same_noise(originals: Path, tmp_path: Path) -> None:
    drawn = [tmp_path / f"{n}.parquet" for n in range(3)]
    for out, seed in zip(drawn, (1, 1, 2), strict=True):
        draw = ["--sample", "2", "--seed", str(seed)]
        changed = tmp_path / out.stem
        script("change").main([str(originals), str(changed), "noise=40", *draw])
        assert len([*changed.rglob("*.png")]) == 2
        arguments = [changed / "noise=40", *draw, "--out", out, "--quiet"]
        assert privsieve(*compare, originals, *arguments) == 0
    first, again, other = (rows(out) for out in drawn)
    assert first == again != other
    assert len(first) == 2


def test_areas_are_around_what_differs() -> None:
    a = np.asarray(scene(0))
    b = a.copy()
    b[0:20, 0:20] = 255 - a[0:20, 0:20]
    b[200:239, 280:319] = 255 - a[200:239, 280:319]
    assert changed_areas(a, a) == []
    assert changed_areas(a, b) == [(0, 0, 32, 32), (272, 192, 320, 240)]
    left, upper, right, lower = changed_areas(a, np.asarray(covered_face(scene(0))))[0]
    assert left <= FACE[0] < FACE[2] <= right
    assert upper <= FACE[1] < FACE[3] <= lower


def test_a_picture_that_changed_a_little_everywhere_is_compared_as_a_whole() -> None:
    a = np.asarray(scene(1))
    assert changed_areas(a, a ^ np.uint8(1)) == [(0, 0, 320, 240)]


def test_each_way_keeps_the_shape_and_changes_the_picture(originals: Path, tmp_path: Path) -> None:
    script("change").main([str(originals / "a"), str(tmp_path), "all", "--sample", "1"])
    files = [*tmp_path.rglob("*.png")]
    assert len(files) == 25
    before = np.asarray(scene(int(files[0].stem)))
    for file in files:
        after = np.asarray(Image.open(file))
        assert after.shape == before.shape
        assert not np.array_equal(after, before)


def test_pixelated_pictures_have_as_many_squares_as_asked(originals: Path, tmp_path: Path) -> None:
    script("change").main([str(originals / "a"), str(tmp_path), "pixelate=4"])
    image = Image.open(tmp_path / "pixelate=4" / "2.png")
    assert len(set(image.crop((0, 0, 60, 60)).get_flattened_data())) == 1


def test_other_safetensors_are_no_head(tmp_path: Path, capsys: Capture) -> None:
    from safetensors.numpy import save

    other = tmp_path / "other.safetensors"
    other.write_bytes(save({"weight": np.zeros((2, 2), np.float32)}))
    photos = folder(tmp_path / "new", 2)
    arguments = (photos, photos, "--encoder", other, "--quiet")
    assert privsieve(*compare, *arguments) == 2
    assert "other.safetensors: is no head over the frozen features" in capsys.readouterr().err
