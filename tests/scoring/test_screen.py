"""The parts of a screen: features, heads, fusions, and the folder that holds them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from benchmarks.screen import fitted
from ingest.errors import EngineError, LabelsError, NoFeaturesError
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from reports.screening.compute import MadeScreen
from scoring.assessment import Assessment, Box, View
from scoring.captions import CAPTION_KINDS
from scoring.screen import encoder as encoder_module
from scoring.screen.detected import DetectorAnswers, Frozen, Thumbnail, answer_features
from scoring.screen.encoder import Encoder
from scoring.screen.fusion import KINDS, Gate, fitted_gate, joined
from scoring.screen.guard import is_guarded
from scoring.screen.heads import fitted_heads
from scoring.screen.modalities import NUM_PLACES, Caption, Features, Modality, PictureView, caption_features
from scoring.screen.screen_file import _own_hash, read_screen, write_screen
from scoring.taxonomy import KEYS
from tests.jobs.made import jpeg
from tests.making import Patch

PIXELS = np.zeros((8, 8, 3), np.uint8)


def _seen(caption: str | None = None, pixels: np.ndarray = PIXELS) -> PictureView:
    return PictureView(View(pixels, frozenset({"gps"}), "0" * 64, caption), 800, 600)


def _values(modality: Modality, picture: PictureView) -> np.ndarray:
    features = modality.features(picture)
    assert features is not None
    return features.values


def test_a_picture_without_a_caption_has_no_features_of_it() -> None:
    assert Caption().features(_seen()) is None


def test_words_count_whatever_their_case_and_pairs_of_words_count_too() -> None:
    assert caption_features("Red DOG").places is not None
    first, second = caption_features("Red DOG"), caption_features("red dog")
    np.testing.assert_array_equal(first.places, second.places)
    assert len(first.values) == 3  # red, dog, "red dog"
    np.testing.assert_allclose(first.values, 1 / np.sqrt(3))


def test_kinds_of_evidence_in_a_caption_are_features_of_their_own() -> None:
    features = caption_features("write to ana@example.org")
    assert features.places is not None
    kinds = [list(CAPTION_KINDS)[place - NUM_PLACES] for place in features.places.tolist() if place >= NUM_PLACES]
    assert kinds == ["email_address"]


def _pixels(encoded: bytes) -> np.ndarray:
    decoded = decode(encoded, ImageLimits())
    assert isinstance(decoded, DecodedImage)
    return decoded.views[0]


@pytest.mark.slow
def test_a_thumbnail_sees_a_face_where_there_is_one_and_kinds_of_metadata() -> None:
    modality = Thumbnail()
    plain = modality.features(_seen(pixels=_pixels(jpeg(3))))
    assert plain.values.shape == (modality.length,)
    sure_faces, gps = 5, -3
    assert plain.values[sure_faces] == 0
    assert plain.values[gps] == 1
    again = modality.features(_seen(pixels=_pixels(jpeg(3))))
    np.testing.assert_array_equal(plain.values, again.values)
    portrait = Path("jobs/demo/corpus/tree/portrait/woman.jpg")
    assert modality.features(_seen(pixels=_pixels(portrait.read_bytes()))).values[sure_faces] > 0


@pytest.mark.slow
def test_all_answers_of_the_detectors_and_the_frozen_features_are_modalities() -> None:
    portrait = _seen(pixels=_pixels(Path("jobs/demo/corpus/tree/portrait/woman.jpg").read_bytes()))
    answers = DetectorAnswers()
    detected = answers.features(portrait).values
    assert detected.shape == (answers.length,)
    value, is_unknown, places, confidence, area = detected[:5]  # of biometrics: one face
    assert (value, is_unknown, places) == (1, 0, np.float32(np.log(2)))
    assert confidence > 0.9
    assert 0.02 < area < 0.9
    with pytest.raises(NoFeaturesError, match=r"a detector failed \("):
        answers.features(_seen(pixels=np.zeros((0, 0, 3), np.uint8)))
    assert _values(Frozen(), portrait).shape == (1024,)


def test_what_the_detectors_cannot_tell_is_no_absence() -> None:
    values = np.zeros(len(KEYS), np.float32)
    values[KEYS.index("biometrics")] = np.nan
    boxes = (Box("gov_ids", "card", 0.1, 0.1, 0.6, 0.3, 0.7), Box("gov_ids", "card", 0.0, 0.0, 1.0, 1.0, 0.9))
    features = answer_features(Assessment(values, boxes=boxes)).values
    assert features[:5].tolist() == [0, 1, 0, 0, 0]
    np.testing.assert_allclose(features[5:10], [0, 0, np.log(3), 0.9, 1], rtol=1e-6)


def _varint(number: int) -> bytes:
    rest = [number >> shift & 127 for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([*(part | 128 for part in rest[:-1]), rest[-1]])


def _field(number: int, content: bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _tensor_type(*shape: int) -> bytes:
    dimensions = b"".join(_field(1, _field(1, side)) for side in shape)
    return _field(2, _field(1, _field(1, 1) + _field(2, dimensions)))


def _node(kind: str, inputs: str, output: str, attribute: bytes = b"") -> bytes:
    """inputs: names of one letter."""
    return (
        b"".join(_field(1, name.encode()) for name in inputs)
        + _field(2, output.encode())
        + (_field(4, kind.encode()) + attribute)
    )


def _model(graph: bytes, side: int = 8, channels: int = 3, answer_type: bytes | None = None) -> bytes:
    """An ONNX model (onnx.proto), written by hand, that takes x, a picture, and gives y, of (1, 3, 1, 1) by default."""
    given = _field(1, b"x") + _tensor_type(1, channels, side, side)
    answer = _field(1, b"y") + (_tensor_type(1, channels, 1, 1) if answer_type is None else answer_type)
    graph += _field(2, b"g") + _field(11, given) + _field(12, answer)
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


def averaging_model(side: int = 8, channels: int = 3) -> bytes:
    """The mean of each channel."""
    return _model(_field(1, _node("GlobalAveragePool", "x", "y")), side, channels)


def _number(name: str, value: np.ndarray[Any, Any], kind: int) -> bytes:
    dimensions = b"".join(_field(1, side) for side in value.shape)
    return _field(5, dimensions + _field(2, kind) + _field(8, name.encode()) + _field(9, value.tobytes()))


OF_SCALAR = _field(5, _field(1, b"keepdims") + _field(3, 0) + _field(20, 2))


def endless_model() -> bytes:
    """A loop of 2^62 rounds for pictures whose mean is above 0."""
    body = _field(1, _node("Identity", "c", "d")) + _field(1, _node("Neg", "s", "t")) + _field(2, b"body")
    picture = _tensor_type(1, 3, 1, 1)
    count, is_more = (_field(2, _field(1, _field(1, kind) + _field(2, b""))) for kind in (7, 9))
    for number, name, of_type in ((11, b"i", count), (11, b"c", is_more), (11, b"s", picture)):
        body += _field(number, _field(1, name) + of_type)
    body += _field(12, _field(1, b"d") + is_more) + _field(12, _field(1, b"t") + picture)
    loop = _node("Loop", "ngp", "y", _field(5, _field(1, b"body") + _field(6, body) + _field(20, 5)))
    return _model(
        _field(1, _node("GlobalAveragePool", "x", "p"))
        + _field(1, _node("ReduceMean", "x", "m", OF_SCALAR))
        + _field(1, _node("Greater", "mz", "g"))
        + _field(1, loop)
        + _number("n", np.array(2**62), 7)
        + _number("z", np.array(0, np.float32), 1)
    )


def huge_model() -> bytes:
    """An array of 12 GB on the way."""
    return _model(
        _field(1, _node("GlobalAveragePool", "x", "p"))
        + _field(1, _node("ConstantOfShape", "n", "h"))
        + _field(1, _node("ReduceMean", "h", "m", OF_SCALAR))
        + _field(1, _node("Add", "pm", "y"))
        + _number("n", np.array([3 * 10**9]), 7)
    )


def growing_model() -> bytes:
    """An embedding of 3 numbers for a black picture, and of 300,000 for a white one."""
    return _model(
        _field(1, _node("GlobalAveragePool", "x", "p"))
        + _field(1, _node("ReduceMax", "x", "m", OF_SCALAR))
        + _field(1, _node("Ceil", "m", "c"))
        + _field(1, _node("Mul", "ck", "l"))
        + _field(1, _node("Max", "lo", "f"))
        + _field(1, _node("Cast", "f", "i", _field(5, _field(1, b"to") + _field(3, 7) + _field(20, 2))))
        + _field(1, _node("Unsqueeze", "iz", "s"))
        + _field(1, _node("ConstantOfShape", "s", "h"))
        + _field(1, _node("Unsqueeze", "hz", "y"))
        + _number("k", np.array(100_000, np.float32), 1)
        + _number("o", np.array(3, np.float32), 1)
        + _number("z", np.array([0]), 7),
        answer_type=_field(2, _field(1, _field(1, 1))),  # any shape
    )


def test_a_model_that_never_ends_or_fills_the_memory_costs_its_picture_and_no_more(monkeypatch: Patch) -> None:
    monkeypatch.setattr(encoder_module, "MAX_CPU_S", 1)
    endless = Encoder(endless_model())
    black, white = (_seen(pixels=np.full((8, 8, 3), value, np.uint8)) for value in (0, 255))
    before = _values(endless, black)
    with pytest.raises(NoFeaturesError, match=r"^the modality encoder takes more than 1 s$"):
        endless.features(white)
    np.testing.assert_array_equal(_values(endless, black), before)
    monkeypatch.setattr(encoder_module, "MEMORY_BYTES", 2**30)
    with pytest.raises(EngineError, match=r"the encoder cannot|takes more than 1024 MB of memory"):
        Encoder(huge_model())


def test_an_embedding_of_another_length_costs_its_picture_and_no_more() -> None:
    """The parent process takes no more bytes than any embedding has."""
    growing = Encoder(growing_model())
    black, white = (_seen(pixels=np.full((8, 8, 3), value, np.uint8)) for value in (0, 255))
    before = _values(growing, black)
    assert before.shape == (3,)
    with pytest.raises(NoFeaturesError, match=r"^the modality encoder gives more than 262,144 bytes$"):
        growing.features(white)
    np.testing.assert_array_equal(_values(growing, black), before)


def test_an_encoder_embeds_a_picture() -> None:
    encoder = Encoder(averaging_model())
    assert encoder.length == 3
    red = np.full((20, 30, 3), (255, 0, 0), np.uint8)
    values = _values(encoder, _seen(pixels=red))
    np.testing.assert_allclose(values, [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225], rtol=1e-5)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"no model", "cannot be opened as an ONNX model"),
        (averaging_model(channels=4), "must take one RGB picture"),
        (averaging_model(side=2_000), "takes pictures of 2,000 px; at most 1,024 px are taken"),
    ],
)
def test_a_file_that_is_no_encoder_of_pictures_is_refused(content: bytes, error: str) -> None:
    with pytest.raises(EngineError, match=error):
        Encoder(content)


def test_a_screen_holds_an_encoder_exactly_if_it_looks_by_one(tmp_path: Path, made: MadeScreen) -> None:
    with pytest.raises(LabelsError, match="does not name the files that its modalities need"):
        write_screen(str(tmp_path / "screen"), made.record, made.predictor, None)


def test_rare_private_pictures_weigh_as_much_as_the_many_public_ones() -> None:
    generator = np.random.default_rng(0)
    truth = np.arange(1000) < 20
    pictures = [Features((generator.normal(size=1) + 2 * private).astype(np.float32)) for private in truth]
    weight, bias = fitted_heads(pictures, 1, truth, np.ones(1000))[1e-4]
    assert -bias / weight == pytest.approx(1.0, abs=0.35)  # halfway, not where 2 % would put it


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_modality_has_no_part_in_any_fusion(kind: str) -> None:
    generator = np.random.default_rng(3)
    truth = generator.random(300) < 0.5
    strong = np.clip(truth * 0.8 + 0.1 + generator.normal(scale=0.08, size=300), 0.01, 0.99)
    noise = generator.random(300)
    probabilities = np.stack([strong, noise], axis=1)
    probabilities[generator.random(300) < 0.4, 1] = np.nan
    gate = fitted_gate(probabilities, truth, np.ones(300), 0) if kind == "gate" else None
    alone = joined(np.array([[0.9, np.nan], [0.1, np.nan], [np.nan, np.nan]]), gate)
    np.testing.assert_allclose(alone, [0.9, 0.1, np.nan])


def test_the_gate_follows_the_modality_that_is_right_where_the_other_is_surely_wrong() -> None:
    generator = np.random.default_rng(5)
    truth = generator.random(2000) < 0.5
    right = np.where(truth, 0.85, 0.15) + generator.normal(scale=0.03, size=2000)
    wrong = np.where(generator.random(2000) < 0.5, 0.98, 0.02)  # always sure, never knows
    probabilities = np.clip(np.stack([right, wrong], axis=1), 0.01, 0.99)
    gate = fitted_gate(probabilities, truth, np.ones(2000), 0)
    by_gate, by_mean = (((joined(probabilities, each) > 0.5) == truth).mean() for each in (gate, None))
    assert by_gate > 0.99
    assert by_mean < 0.9


def test_the_guard_picks_by_the_picture_alone() -> None:
    hashes = [f"{number:064x}" for number in range(20_000)]
    picked = [is_guarded(each, 0.01) for each in hashes]
    assert picked == [is_guarded(each, 0.01) for each in hashes]
    assert 150 < sum(picked) < 250
    assert all(is_guarded(each, 1.0) for each in hashes)


@pytest.fixture(scope="module")
def made() -> MadeScreen:
    return fitted(np.random.default_rng(7), 0.05, 130, 200, 7)


def _write(folder: Path, made: MadeScreen) -> Path:
    write_screen(str(folder), made.record, made.predictor, b"an encoder")
    return folder


def test_a_screen_that_was_written_says_the_same(tmp_path: Path, made: MadeScreen) -> None:
    _write(tmp_path / "screen", made)
    screen = read_screen(str(tmp_path / "screen"))
    vectors = {name: Features(np.full(4, 0.5, np.float32)) for name in ("thumbnail", "caption", "encoder")}
    assert screen.predictor.probability(vectors) == made.predictor.probability(vectors)  # type: ignore[arg-type]
    assert screen.record.bound == made.record.bound
    assert screen.encoder == b"an encoder"
    names = {file.name for file in (tmp_path / "screen").iterdir()}
    assert names == {"encoder.onnx", "screen.json", "screen.safetensors"}


@pytest.mark.parametrize("name", ["screen.safetensors", "encoder.onnx"])
def test_a_changed_file_of_a_screen_is_refused(tmp_path: Path, made: MadeScreen, name: str) -> None:
    _write(tmp_path, made)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"x")
    with pytest.raises(LabelsError, match=f"{name} is not the file that screen.json names"):
        read_screen(str(tmp_path))


@pytest.mark.parametrize(
    ("more", "message"),
    [({"pickle": "x"}, "is damaged"), ({"format": 2}, "has the format 2, .* or fit the screen again")],
)
def test_a_screen_with_unknown_settings_or_of_another_format_is_refused(
    tmp_path: Path, made: MadeScreen, more: dict[str, object], message: str
) -> None:
    _write(tmp_path, made)
    record = json.loads((tmp_path / "screen.json").read_text())
    (tmp_path / "screen.json").write_text(json.dumps(record | more))
    with pytest.raises(LabelsError, match=rf"screen\.json {message}"):
        read_screen(str(tmp_path))


def test_a_threshold_that_was_changed_by_hand_is_refused(tmp_path: Path, made: MadeScreen) -> None:
    _write(tmp_path, made)
    text = (tmp_path / "screen.json").read_text()
    threshold = f'"threshold": {json.loads(text)["bound"]["threshold"]}'
    assert text.count(threshold) == 1
    (tmp_path / "screen.json").write_text(text.replace(threshold, '"threshold": 0.9'))
    with pytest.raises(LabelsError, match=r"screen\.json was changed after the fit, .* copy the screen again"):
        read_screen(str(tmp_path))


def _forged(folder: Path, made: MadeScreen, weights: bytes) -> str:
    """A screen with other weights, whose hashes fit."""
    _write(folder, made)
    record = json.loads((folder / "screen.json").read_text())
    record["files"]["screen.safetensors"] = hashlib.sha256(weights).hexdigest()
    (folder / "screen.safetensors").write_bytes(weights)
    (folder / "screen.json").write_text(json.dumps(record | {"sha256": _own_hash(json.dumps(record))}))
    return str(folder)


def test_weights_of_other_shapes_are_refused(tmp_path: Path, made: MadeScreen) -> None:
    tensors = load((_write(tmp_path / "made", made) / "screen.safetensors").read_bytes())
    for number, name in enumerate(tensors):
        for shape in ((2,), (20, 20), (2, 2, 2), ()):
            if tensors[name].shape == shape:
                continue
            other = save(tensors | {name: np.ones(shape, tensors[name].dtype)})
            folder = _forged(tmp_path / f"{number}-{len(shape)}", made, other)
            with pytest.raises(LabelsError, match="does not hold what"):
                read_screen(folder)


def test_a_tensor_of_more_axes_than_any_screen_has_is_refused_before_its_size_is_computed(
    tmp_path: Path, made: MadeScreen
) -> None:
    """The product of 400,000 large numbers takes minutes."""
    folder = _forged(tmp_path, made, save({"caption.head": np.zeros((1,) * 5)}))
    with pytest.raises(LabelsError, match="is damaged"):
        read_screen(folder)


def test_a_folder_without_a_record_is_no_screen(tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="is no screen"):
        read_screen(str(tmp_path))
    (tmp_path / "screen.json").write_text("{}")
    with pytest.raises(LabelsError, match=r"screen\.json is a file; give the folder of the screen"):
        read_screen(str(tmp_path / "screen.json"))


def test_a_gate_of_other_modalities_does_not_fit() -> None:
    gate = Gate(np.zeros((5, 16)), np.zeros((17, 2)))
    assert gate.fits(2)
    assert not gate.fits(3)
