"""Screens with encoders in the format of transformers, on tiny models with random weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file, save, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModel,
    BertConfig,
    CLIPConfig,
    CLIPImageProcessorPil,
    Dinov2Config,
    DINOv3ViTConfig,
    DINOv3ViTImageProcessor,
    PreTrainedConfig,
    ResNetConfig,
    RobertaConfig,
    SiglipConfig,
    SwinConfig,
    T5Config,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

from ingest.errors import EngineError
from jobs.cli import main
from privsieve import screen_evaluate, screen_fit
from scoring.assessment import View
from scoring.screen.modalities import PictureView
from scoring.screen.model import Screener
from scoring.screen.screen_file import read_screen
from scoring.screen.text_encoder import TextEncoder
from scoring.screen.transformers_model import _OF_PICTURES, _OF_TEXTS, TransformersEncoder, TransformersTextModel
from tests.screens import COMMON_WORDS, PRIVATE_WORDS, PUBLIC_WORDS, planted_corpus, write_labels

pytestmark = pytest.mark.vllm

SIDE = 32
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "initializer_range": 0.5,
}
SEES: dict[str, Any] = {**SIZES, "image_size": SIDE, "patch_size": 8}
WORDS = ("<s>", "<pad>", "</s>", "<unk>", *PRIVATE_WORDS, *PUBLIC_WORDS, *COMMON_WORDS)
READS: dict[str, Any] = {**SIZES, "vocab_size": len(WORDS), "pad_token_id": 1, "max_position_embeddings": 70}
PIXELS = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
CAPTION = "passport of the old bridge"

CLIP = CLIPConfig(text_config=READS | {"eos_token_id": 2}, vision_config=SEES, projection_dim=8)
SIGLIP = SiglipConfig(text_config=READS | {"max_position_embeddings": 12}, vision_config=SEES)


def _folder(folder: Path, config: PreTrainedConfig, dtype: torch.dtype = torch.float32) -> Path:
    """A model with random weights, how it prepares pictures (halved colours, whatever the size), and a tokenizer."""
    torch.manual_seed(0)
    AutoModel.from_config(config).to(dtype).save_pretrained(folder)
    processors = {"clip": CLIPImageProcessorPil, "dinov3_vit": DINOv3ViTImageProcessor}
    processor = processors.get(config.model_type, ViTImageProcessorPil)
    size = {"height": SIDE, "width": SIDE}
    processor(size=size, crop_size=size, image_mean=[0.5, 0.4, 0.3], image_std=[0.5] * 3).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    return folder


def _encoder(folder: Path) -> TransformersEncoder:
    files = ("model.safetensors", "config.json", "preprocessor_config.json")
    return TransformersEncoder(*((folder / file).read_bytes() for file in files))


def _text_encoder(folder: Path) -> TextEncoder:
    model = TransformersTextModel(*((folder / file).read_bytes() for file in ("model.safetensors", "config.json")))
    return TextEncoder(model, (folder / "tokenizer.json").read_bytes())


def _seen(pixels: npt.NDArray[np.uint8] = PIXELS, caption: str | None = None) -> PictureView:
    return PictureView(View(pixels, frozenset(), "0" * 64, caption), *pixels.shape[1::-1])


def _pixel_values() -> torch.Tensor:
    prepared = (PIXELS / 255 - np.array([0.5, 0.4, 0.3])) / 0.5
    return torch.from_numpy(prepared.astype(np.float32).transpose(2, 0, 1)[None])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ViTConfig(**SEES), lambda m: m(pixel_values=_pixel_values()).last_hidden_state.mean(1)),
        (Dinov2Config(**SEES), lambda m: m(pixel_values=_pixel_values()).pooler_output),
        (
            ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1]),
            lambda m: m(pixel_values=_pixel_values()).pooler_output[:, :, 0, 0],
        ),
        (DINOv3ViTConfig(**SEES), lambda m: m(pixel_values=_pixel_values()).pooler_output),
        (CLIP, lambda m: m.visual_projection(m.vision_model(pixel_values=_pixel_values()).pooler_output)),
        (SIGLIP, lambda m: m.vision_model(pixel_values=_pixel_values()).pooler_output),
    ],
    ids=["vit", "dinov2", "resnet", "dinov3, prepared by torchvision", "clip", "siglip"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_picture_is_embedded_as_its_model_says(
    tmp_path: Path, config: PreTrainedConfig, expected: Callable[[Any], torch.Tensor], dtype: torch.dtype
) -> None:
    folder = _folder(tmp_path, config, dtype)
    encoder = _encoder(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        by_hand = expected(model)[0].numpy()
    embedding = encoder.features(_seen()).values
    np.testing.assert_allclose(embedding, by_hand, rtol=1e-4, atol=1e-5)
    assert encoder.length == len(embedding)
    other = encoder.features(_seen(255 - PIXELS)).values
    assert np.abs(other - embedding).max() > 1e-3


def test_a_picture_of_another_size_is_prepared_as_the_folder_says(tmp_path: Path) -> None:
    """Twice as large by repetition, and back by the filter of the folder, which is that of the nearest pixel here."""
    folder = _folder(tmp_path, ViTConfig(**SEES))
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps(settings | {"resample": 0}))
    encoder = _encoder(folder)
    large = np.ascontiguousarray(PIXELS.repeat(2, axis=0).repeat(2, axis=1))
    np.testing.assert_array_equal(encoder.features(_seen(large)).values, encoder.features(_seen()).values)
    strip = np.zeros((1, 3_000, 3), np.uint8)
    assert encoder.features(_seen(strip)).values.shape == (16,)


def test_a_classifier_is_an_encoder_and_its_last_layer_is_left_out(tmp_path: Path) -> None:
    """Its folder has no layer that pools, and names its tensors after the part that it is."""
    folder = _folder(tmp_path, ViTConfig(**SEES))
    torch.manual_seed(3)
    classifier = ViTForImageClassification(ViTConfig(**SEES)).eval()
    classifier.save_pretrained(folder)
    with torch.inference_mode():
        states = classifier.vit(pixel_values=_pixel_values()).last_hidden_state
    np.testing.assert_allclose(
        _encoder(folder).features(_seen()).values, states.mean(1)[0].numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BertConfig(**READS), lambda m, ids: m(input_ids=ids).last_hidden_state.mean(1)),
        (RobertaConfig(**READS), lambda m, ids: m(input_ids=ids).last_hidden_state.mean(1)),
        (CLIP, lambda m, ids: m.text_projection(m.text_model(input_ids=ids).pooler_output)),
        (
            SIGLIP,
            lambda m, ids: (
                m.text_model(input_ids=torch.nn.functional.pad(ids, (0, 12 - ids.shape[1]), value=1)).pooler_output
            ),
        ),
    ],
    ids=["bert", "roberta", "clip", "siglip, which reads texts that are filled up"],
)
def test_a_caption_is_embedded_as_its_model_says(
    tmp_path: Path, config: PreTrainedConfig, expected: Callable[[Any, torch.Tensor], torch.Tensor]
) -> None:
    folder = _folder(tmp_path, config)
    encoder = _text_encoder(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        by_hand = expected(model, torch.tensor([[WORDS.index(word) for word in CAPTION.split()]]))[0].numpy()
    embedding = encoder.features(_seen(caption=CAPTION))
    assert embedding is not None
    np.testing.assert_allclose(embedding.values, by_hand, rtol=1e-4, atol=1e-5)
    assert encoder.features(_seen(caption=None)) is None
    assert encoder.features(_seen(caption="bridge " * 500)) is not None  # cut, and not refused


def _settings(file: str, **more: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | more))

    return change


def _tensors(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")

    return changed


NORM = "layernorm.weight"
WINDOWS = SwinConfig(image_size=4000, window_size=1000, embed_dim=8, depths=[1], num_heads=[1])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            _settings("config.json", auto_map={"AutoModel": "model.Mine"}),
            "code of its own (auto_map), which is never run",
        ),
        (_settings("preprocessor_config.json", auto_map={}), "preprocessor_config.json of the encoder asks for code"),
        (
            _settings("config.json", model_type="mine"),
            'no encoder of the model_type "mine" is taken; there are: beit, ',
        ),
        (_settings("config.json", model_type=["vit"]), 'no encoder of the model_type ["vit"] is taken'),
        (_settings("config.json", model_type="bert"), 'no encoder of the model_type "bert" is taken'),
        # Of this type transformers would ask the hub for the backbone.
        (_settings("config.json", model_type="detr", backbone="somebody/model"), 'model_type "detr" is taken'),
        (_settings("config.json", out_features=["stage1"] * 101), "out_features has more than 100 entries"),
        (_settings("config.json", model_type="resnet", depths=[90] * 90), "depths is larger than 1,000"),
        (lambda folder: WINDOWS.save_pretrained(folder), "describes tables of"),
        (lambda folder: (folder / "config.json").write_text("{" + " " * 2**20), "has more than 1,048,576 bytes"),
        (_settings("config.json", quantization_config={"quant_method": "gptq"}), "the weights are quantized"),
        (_settings("config.json", hidden_size=2**40), "hidden_size is larger than 1,048,576"),
        (_settings("config.json", hidden_size=2**20), "the weights of the encoder are incomplete"),
        (_settings("config.json", num_hidden_layers=2**19), "num_hidden_layers is larger than 1,000"),
        (_settings("config.json", image_size=2**20), "the weights of the encoder are incomplete"),
        (_settings("config.json", num_hidden_layers=3), "the weights of the encoder are incomplete"),
        (_settings("config.json", attn_implementation="them/their-kernels", hidden_act="exec"), "cannot be loaded"),
        (_settings("preprocessor_config.json", size={"height": 10**6, "width": 32}), "height is larger than 1,024"),
        (_settings("preprocessor_config.json", size={"height": 64, "width": 64}), "cannot look at a picture"),
        (_settings("preprocessor_config.json", image_mean="grey"), "cannot look at a picture"),
        (
            lambda folder: (folder / "preprocessor_config.json").write_text("{}"),
            "; give its config.json and its preprocessor of the same model, or choose another model",
        ),
        (_settings("preprocessor_config.json", image_processor_type="os"), 'no image_processor_type "os" is taken'),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "config.json of the encoder is not a JSON"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x80\x04pickle"), "cannot be loaded"),
        (_tensors(lambda t: {n: v for n, v in t.items() if n != NORM} | {"x": t[NORM]}), "incomplete: no layernorm"),
        (_tensors(lambda t: t | {NORM: torch.zeros(3), "x": t[NORM]}), "cannot be loaded by transformers"),
        (_tensors(lambda t: t | {NORM: t[NORM].to(torch.int8)}), "weights of the encoder are torch.int8"),
    ],
)
def test_a_hostile_or_damaged_folder_is_one_line(
    tmp_path: Path, change: Callable[[Path], object], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "model", ViTConfig(**SEES))
    change(folder)
    (tmp_path / "labels.csv").write_text("key,private\na,1\n")
    (tmp_path / "pictures").mkdir()
    arguments = ("--labels", tmp_path / "labels.csv", "--encoder", folder, "--out", tmp_path / "screen", "--quiet")
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main([*map(str, ("screen", "fit", tmp_path / "pictures", "--modality", "encoder", *arguments))])
    said = capsys.readouterr().err
    assert done.value.code == 2
    assert error in said
    assert said.count("\n") == 1
    assert not (tmp_path / "screen").exists()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"max_position_embeddings": None}, "cannot be loaded by transformers"),
        ({"text_config": {"model_type": "siglip"}}, None),
        ({"pad_token_id": "none"}, "cannot be loaded by transformers"),
        ({"vocab_size": 5}, "cannot be loaded by transformers"),
    ],
    ids=["no length", "settings of another model", "no padding", "fewer words"],
)
def test_odd_settings_of_a_text_encoder_are_one_line_or_do_not_matter(
    tmp_path: Path, settings: dict[str, object], error: str | None
) -> None:
    folder = _folder(tmp_path, BertConfig(**READS))
    _settings("config.json", **settings)(folder)
    if error is None:
        assert _text_encoder(folder).length == 16
        return
    with pytest.raises(EngineError, match=error):
        _text_encoder(folder)


def test_a_picture_of_too_many_patches_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model", Dinov2Config(**SEES))
    _settings("preprocessor_config.json", size={"height": 1024, "width": 1024}, crop_size=None)(folder)
    with pytest.raises(EngineError, match=r"16,384 patches, too many for memory; .* or choose another model"):
        _encoder(folder)


@pytest.mark.parametrize("model_type", sorted(_OF_PICTURES.model_types | _OF_TEXTS.model_types))
def test_no_model_type_that_is_taken_asks_the_hub_for_a_backbone(
    model_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def resolve(host: object, *more: object) -> None:
        asked.append(host)
        raise OSError("no network in this test")

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    names = {"backbone": "somebody/model", "use_timm_backbone": False, "use_pretrained_backbone": True}
    config = json.dumps({"model_type": model_type, **names}).encode()
    for load in (TransformersTextModel, lambda weights, config: TransformersEncoder(weights, config, b"{}")):
        with pytest.raises(EngineError):
            load(save({"x": torch.zeros(1)}), config)
    assert asked == []


def test_a_tokenizer_of_another_model_is_one_line(tmp_path: Path) -> None:
    folder = _folder(tmp_path, BertConfig(**READS))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["zebra"])
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(EngineError, match=r"^the tokenizer.json has tokens that the text encoder does not know; "):
        _text_encoder(folder)


def test_a_model_that_answers_with_texts_is_no_text_encoder(tmp_path: Path) -> None:
    T5Config(**SIZES, vocab_size=len(WORDS)).save_pretrained(tmp_path)
    with pytest.raises(EngineError, match='no text encoder of the model_type "t5" is taken; there are: bert, '):
        TransformersTextModel(b"", (tmp_path / "config.json").read_bytes())


def test_a_screen_holds_its_models_and_scans_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _folder(tmp_path / "blobs", CLIP, torch.float16)
    picture_model = tmp_path / "snapshots" / "1"  # of links, as in the cache of the hub
    picture_model.mkdir(parents=True)
    for file in files.iterdir():
        (picture_model / file.name).symlink_to(file)
    # Nearly the mean of what its words are looked up as, so that little is to be learnt.
    plain = READS | {"hidden_size": 48, "num_hidden_layers": 1, "initializer_range": 0.02}
    text_model = _folder(tmp_path / "bert", BertConfig(**plain))
    corpus = tmp_path / "shards"
    labels = write_labels(tmp_path / "labels.csv", planted_corpus(corpus, 130, 160, 1, noise=0.02, for_canned=True))
    screen = tmp_path / "screen"
    fitted = screen_fit(
        *(corpus, labels, screen),
        target_miss=0.05,
        modality=["encoder", "text-encoder"],
        encoder=picture_model,
        text_encoder=text_model,
        head=["logistic"],
        cache=tmp_path / "kept",
    )
    for folder in (files, picture_model, text_model):
        shutil.rmtree(folder)
    assert sorted(file.name for file in screen.iterdir()) == [
        *("encoder-config.json", "encoder-preprocessor.json", "encoder.safetensors", "screen.json"),
        *("screen.safetensors", "text-encoder-config.json", "text-encoder.json", "text-encoder.safetensors"),
    ]
    of_pictures, of_texts = fitted.screen.record.modalities
    assert set(of_pictures.identity) == {"features", "transformers", "weights", "config", "preprocessor"}
    assert set(of_texts.identity) == {"features", "transformers", "weights", "config", "tokenizer"}
    copied = shutil.copytree(screen, tmp_path / "elsewhere")
    judged = {each.name: each.accuracy for each in screen_evaluate(copied, corpus, labels).evaluation.predictors}
    assert (judged["text-encoder"] or 0) > 0.9
    screener = Screener(read_screen(str(copied)))
    private, public = (
        screener.probability([_seen(caption=text)]) for text in ("a passport invoice", "a sunset bridge")
    )
    assert private is not None
    assert public is not None
    assert private > 0.8 > 0.2 > public

    run = tmp_path / "run"
    scan = ("scan", corpus, "--run", run, "--engine", "canned", "--screen", copied, "--executor", "inline", "--quiet")
    for arguments in (scan, ("evaluate", run, "--labels", labels), ("explain", run, "000000")):
        with pytest.raises(SystemExit) as done:
            main([*map(str, arguments)])
        assert done.value.code == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "screened out" in said

    (copied / "encoder-config.json").write_text("{}")
    with pytest.raises(Exception, match=r"encoder-config\.json is not the file that screen\.json names"):
        read_screen(str(copied))
