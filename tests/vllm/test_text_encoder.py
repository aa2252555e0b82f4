"""A screen with a text encoder: here, since the tokenizers come with transformers."""

import struct
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from ingest.errors import EngineError
from privsieve import screen_evaluate, screen_fit
from scoring.assessment import View
from scoring.screen.modalities import PictureView
from scoring.screen.model import Screener
from scoring.screen.screen_file import read_screen
from scoring.screen.text_encoder import OnnxTextModel, TextEncoder
from tests.screens import COMMON_WORDS, PRIVATE_WORDS, PUBLIC_WORDS, planted_corpus, write_labels

pytestmark = pytest.mark.vllm

WORDS = ("[unknown]", *PRIVATE_WORDS, *PUBLIC_WORDS, *COMMON_WORDS)


def _field(number: int, content: bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _type(kind: int, *shape: int | str) -> bytes:
    sides = (_field(1, side) if isinstance(side, int) else _field(2, side.encode()) for side in shape)
    dimensions = b"".join(_field(1, side) for side in sides)
    return _field(2, _field(1, _field(1, kind) + _field(2, dimensions)))


def _model(num_tokens: int | str, *others: str, is_mean: bool = False) -> bytes:
    """An ONNX model, written by hand, that looks up one direction for each word: (1, tokens) -> (1, tokens, words), or
    (1, words), the mean over all tokens."""
    side = len(WORDS)
    table = _field(1, side) + _field(1, side) + _field(2, 1) + _field(8, b"table")
    table += _field(9, struct.pack(f"<{side * side}f", *np.eye(side, dtype=np.float32).ravel()))
    looked_up = b"directions" if is_mean else b"y"
    nodes = [_field(1, b"table") + _field(1, b"input_ids") + _field(2, looked_up) + _field(4, b"Gather")]
    if is_mean:
        axes = _field(1, b"axes") + _field(8, 1) + _field(20, 7)
        keepdims = _field(1, b"keepdims") + _field(3, 0) + _field(20, 2)
        mean = _field(1, looked_up) + _field(2, b"y") + _field(4, b"ReduceMean")
        nodes.append(mean + _field(5, axes) + _field(5, keepdims))
    inputs = (_field(1, name.encode()) + _type(7, 1, num_tokens) for name in ("input_ids", *others))
    answer = _field(1, b"y") + (_type(1, 1, side) if is_mean else _type(1, 1, num_tokens, side))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"g") + _field(5, table)
    graph += b"".join(_field(11, each) for each in inputs) + _field(12, answer)
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


@pytest.fixture(scope="module")
def tokenizer() -> bytes:
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    words.normalizer, words.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    return str(words.to_str()).encode()


def _seen(caption: str | None) -> PictureView:
    return PictureView(View(np.zeros((8, 8, 3), np.uint8), frozenset(), "0" * 64, caption), 8, 8)


def test_a_caption_is_the_mean_of_its_tokens_and_padding_does_not_count(tokenizer: bytes) -> None:
    for num_tokens in ("tokens", 8):
        encoder = TextEncoder(OnnxTextModel(_model(num_tokens, "attention_mask")), tokenizer)
        features = encoder.features(_seen("Passport PASSPORT bridge cathedral"))
        assert features is not None
        assert {WORDS[place]: features.values[place] for place in np.flatnonzero(features.values)} == {
            "passport": 0.5,
            "bridge": 0.25,
            "[unknown]": 0.25,
        }
        assert encoder.features(_seen(None)) is None
        assert encoder.features(_seen("bridge " * 500)) is not None  # cut, and not refused


@pytest.mark.parametrize("stated", ["by its section padding", "by the name of a token", "not at all"])
def test_a_short_caption_is_filled_up_with_the_padding_of_its_tokenizer(stated: str) -> None:
    """A model of a fixed length that takes no attention mask, as that of SigLIP, sees the padding."""
    words = {word: number for number, word in enumerate(WORDS)}
    if stated == "by the name of a token":
        words["<pad>"] = words.pop(WORDS[-1])
    made = Tokenizer(models.WordLevel(words, unk_token=WORDS[0]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if stated == "by its section padding":
        made.enable_padding(pad_id=len(WORDS) - 1, pad_token=WORDS[-1])
    features = TextEncoder(OnnxTextModel(_model(4, is_mean=True)), str(made.to_str()).encode()).features(
        _seen("passport")
    )
    assert features is not None
    filled = 0 if stated == "not at all" else len(WORDS) - 1
    assert {int(place): features.values[place] for place in np.flatnonzero(features.values)} == {
        WORDS.index("passport"): 0.25,
        filled: 0.75,
    }


def _opened(model: bytes, words: bytes) -> TextEncoder:
    return TextEncoder(OnnxTextModel(model), words)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda model, tokenizer: (b"no model", tokenizer), "cannot be opened as an ONNX model"),
        (lambda model, tokenizer: (model, b"{}"), r"tokenizer\.json of the text encoder cannot be read"),
        (lambda model, tokenizer: (_model("tokens", "pixel_values"), tokenizer), "must take int64 input_ids"),
    ],
)
def test_other_files_are_refused(tokenizer: bytes, change: object, error: str) -> None:
    assert callable(change)
    model, words = change(_model("tokens"), tokenizer)
    with pytest.raises(EngineError, match=error):
        _opened(model, words)


def test_a_screen_holds_its_text_encoder_and_learns_from_it(tmp_path: Path, tokenizer: bytes) -> None:
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    (encoder / "model.onnx").write_bytes(_model("tokens"))
    (encoder / "tokenizer.json").write_bytes(tokenizer)
    labels = write_labels(tmp_path / "labels.csv", planted_corpus(tmp_path / "shards", 130, 160, 1, noise=0.02))
    screen = tmp_path / "screen"
    seen = ["text-encoder"]
    screen_fit(tmp_path / "shards", labels, screen, target_miss=0.05, modality=seen, text_encoder=encoder, head=["svm"])
    assert (screen / "text-encoder.onnx").read_bytes() == _model("tokens")
    assert (screen / "text-encoder.json").read_bytes() == tokenizer
    (judged, fused) = screen_evaluate(screen, tmp_path / "shards", labels).evaluation.predictors
    assert (judged.name, fused.name) == ("text-encoder", "fusion: single")
    assert judged.accuracy is not None
    assert judged.accuracy > 0.9
    screener = Screener(read_screen(str(screen)))
    private, public = (screener.probability([_seen(text)]) for text in ("a passport invoice", "a sunset bridge"))
    assert private is not None
    assert public is not None
    assert private > 0.8 > 0.2 > public
    assert screener.probability([_seen(None)]) is None
    (screen / "text-encoder.json").write_text("{}")
    with pytest.raises(Exception, match=r"text-encoder\.json is not the file that screen\.json names"):
        read_screen(str(screen))
