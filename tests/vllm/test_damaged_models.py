"""Models and adapters that cannot work are refused before anything is loaded: one line, whatever is wrong."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from scoring.engines.vlm import checkpoint as checkpoints
from scoring.engines.vlm.checkpoint import checkpoint as checkpoint_of
from scoring.engines.vlm.checkpoint import content_sha256, safetensors_shapes, weight_files
from scoring.protocols import protocol
from scoring.protocols.interface import Slots
from tests.jobs.made import privsieve, shard
from tests.making import Capture, Patch
from tests.vllm.conftest import MAX_PIXELS

INDEX = "model.safetensors.index.json"
SHARD = "model-00001-of-00001.safetensors"


@pytest.fixture
def model(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return shutil.copytree(checkpoint, tmp_path / "damaged")


def _cut(name: str, left_out: int = 1) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-left_out])

    return damage


def _renamed(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).rename(folder / f"{name}.bin")

    return damage


def _holding(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def _sharded(folder: Path) -> None:
    """The same weights as a shard with its index."""
    (folder / "model.safetensors").rename(folder / SHARD)
    _indexed(dict.fromkeys(safetensors_shapes(folder / SHARD), SHARD))(folder)


def _without_its_shard(folder: Path) -> None:
    _sharded(folder)
    (folder / SHARD).unlink()


def _twice(folder: Path) -> None:
    """Shards with their index, and beside them another model.safetensors, as saving again into a folder leaves them."""
    content = (folder / "model.safetensors").read_bytes()
    _sharded(folder)
    _holding("model.safetensors", content)(folder)


def _config(*place: str, to: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        whole = config = json.loads((folder / "config.json").read_text())
        for key in place[:-1]:
            config = config[key]
        config[place[-1]] = to
        (folder / "config.json").write_text(json.dumps(whole))

    return damage


def _header(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + content


def _indexed(weight_map: object) -> Callable[[Path], None]:
    return _holding(INDEX, json.dumps({"weight_map": weight_map}).encode())


def _refusal(engine: str, **options: object) -> str:
    """What `describe` says, as `scan`, `scan --dry-run` and `doctor` ask it."""
    with pytest.raises(EngineError) as refused:
        engine_module(engine).describe(EngineOptions(max_pixels=MAX_PIXELS, **options))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_renamed("config.json"), "has no config.json"),
        (_renamed("tokenizer.json"), "has no tokenizer"),
        (_renamed("processor_config.json"), "has no image processor configuration"),
        (_renamed("model.safetensors"), "has its weights as model.safetensors.bin, which can run code"),
        (_cut("model.safetensors"), '"model.safetensors" in "{folder}" is damaged or cut: '),
        (_holding("model.safetensors", b""), "its safetensors header does not fit"),
        (_holding("model.safetensors", _header(b"{not json")), "its safetensors header does not fit"),
        (_indexed({}), f"its {INDEX} names no weight files"),
        (_without_its_shard, f"has no {SHARD}, which its {INDEX} names"),
        (_twice, f"has weights twice, model.safetensors and {SHARD}, and engines differ in which they load"),
        (_holding("old.safetensors", b""), "has weights twice, model.safetensors and old.safetensors, and engines"),
        (_holding("adapter_config.json", b"{}"), "holds an adapter (adapter_config.json), which not every engine"),
        (_config("vision_config", to=None), "is not a vision-language model (model_type qwen3_vl"),
        (_config("text_config", to=[1]), "text_config in its config.json is not a JSON object"),
        (_config("text_config", "max_position_embeddings", to="many"), 'is "many", which is not a number'),
    ],
)
def test_a_model_that_cannot_work_is_refused_before_it_is_loaded(
    model: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(model)
    for engine in ("transformers", "vllm"):
        assert message.format(folder=model) in _refusal(engine, model=str(model))


def test_weights_that_lie_twice_in_the_folder_are_known_by_dry_run_doctor_and_scan(
    model: Path, tmp_path: Path, capfd: Capture
) -> None:
    """transformers loads model.safetensors and vLLM the shards: run.json would name what was not used."""
    _twice(model)
    shard(tmp_path / "0.tar", 0, 1)
    run, arguments = tmp_path / "run", ["--engine", "vllm", "--model", model]
    for more in ([], ["--dry-run"]):
        assert privsieve("scan", tmp_path / "0.tar", "--run", run, *arguments, *more) == 2
        output = capfd.readouterr().err.splitlines()
        assert len(output) == 1
        assert output[0].startswith(f'privsieve: the model folder "{model}" has weights twice')
        assert output[0].endswith("remove one of the two")
        assert not run.exists()
    assert privsieve("doctor", *arguments) == 1
    assert f"has weights twice, model.safetensors and {SHARD}" in " ".join(capfd.readouterr().out.split())


def test_one_set_of_weights_is_taken_however_it_is_stored(model: Path) -> None:
    whole = safetensors_shapes(model / "model.safetensors")
    _indexed(dict.fromkeys(whole, "model.safetensors"))(model)
    assert [file.name for file in weight_files(model)] == ["model.safetensors"]
    (model / INDEX).unlink()
    _sharded(model)
    _holding("consolidated.safetensors", b"of another format, which the index leaves out")(model)
    for engine in ("transformers", "vllm"):
        assert engine_module(engine).describe(EngineOptions(model=str(model), max_pixels=MAX_PIXELS)).weights


def test_run_json_tells_apart_weights_that_differ_anywhere(model: Path) -> None:
    """Two runs are comparable only with the same weights: one bit of them counts, wherever it lies."""

    def digest() -> str:
        return checkpoint_of(str(model), with_weights=False).digest()

    file = model / "model.safetensors"
    before, content = digest(), file.read_bytes()
    assert digest() == before
    for at in range(len(content) // 8, len(content), len(content) // 5):
        _holding(file.name, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])(model)
        assert digest() != before
    _holding(file.name, content)(model)
    assert digest() == before


def test_every_block_of_a_large_file_counts_and_so_does_their_order(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(checkpoints, "BLOCK_BYTES", checkpoints.PIECE_BYTES)

    def digest(name: str, *blocks: bytes) -> str:
        (tmp_path / name).mkdir()
        with (tmp_path / name / "weights").open("wb") as stream:
            for number, block in enumerate(blocks):
                stream.seek(number * checkpoints.BLOCK_BYTES)
                stream.write(block)
        return content_sha256([tmp_path / name / "weights"])

    assert digest("a", b"1", b"2", b"3") == digest("b", b"1", b"2", b"3")
    others = [(b"2", b"1", b"3"), (b"1", b"2", b"4"), (b"1", b"2"), (b"1", b"2", b"3\0")]
    assert len({digest("c", b"1", b"2", b"3"), *(digest(str(n), *other) for n, other in enumerate(others))}) == 5


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_renamed("adapter_model.safetensors"), "has no adapter_model.safetensors"),
        (_cut("adapter_model.safetensors"), '"adapter_model.safetensors" in "{folder}" is damaged or cut: '),
        (_holding("adapter_model.safetensors", _header(b"{not json")), "its safetensors header does not fit"),
        (_holding("adapter_config.json", b"{not json"), "its adapter_config.json is not valid JSON"),
    ],
)
def test_a_damaged_adapter_is_refused_before_it_is_loaded(
    checkpoint: Path, adapter: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    damaged = shutil.copytree(adapter, tmp_path / "damaged")
    damage(damaged)
    for engine in ("transformers", "vllm"):
        result = _refusal(engine, model=str(checkpoint), adapter=str(damaged))
        assert message.format(folder=damaged) in result


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_holding("processor_config.json", b"[]"), "cannot be loaded ("),
        (_holding("chat_template.jinja", b"{% if"), "cannot be asked (TemplateSyntaxError)"),
        (_holding("chat_template.jinja", b"{{ raise_exception('no') }}"), "cannot be asked (TemplateError)"),
        (_holding("chat_template.jinja", b"a model without pictures"), "its chat template leaves out the picture"),
    ],
)
def test_a_model_whose_own_files_refuse_the_prompt_is_refused_before_it_is_loaded(
    model: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(model)
    for engine in ("transformers", "vllm"):
        result = _refusal(engine, model=str(model))
        assert result.startswith(("the processor of the model", "the model")), result
        assert message in result
        with pytest.raises(EngineError, match=re.escape(message)):
            engine_module(engine).load(EngineOptions(model=str(model), max_pixels=MAX_PIXELS))


def test_a_tokenizer_that_joins_digits_is_reported(model: Path) -> None:
    """The digits follow `=`; a token for both is what other families of models have."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    form = protocol("slots").prompt.wanted
    assert isinstance(form, Slots)
    joined = [f"{form.pieces[0][-1]}{digit}" for digit in form.choices]
    number = max(token["id"] for token in tokenizer["added_tokens"]) + 1
    like = tokenizer["added_tokens"][0] | {"special": False}
    tokenizer["added_tokens"] += [like | {"id": number, "content": joined[1]}]
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    for engine in ("transformers", "vllm"):
        assert "does not keep single digits as single tokens" in _refusal(engine, model=str(model))


@pytest.mark.parametrize("name", ["slots", "json"])
def test_a_prompt_longer_than_the_model_takes_is_reported_before_it_is_loaded(checkpoint: Path, name: str) -> None:
    texts = json.dumps({"system": "1" * 17_000}).encode()
    for engine in ("transformers", "vllm"):
        output = _refusal(engine, model=str(checkpoint), protocol=name, prompt_file=texts)
        taken = re.search(r"the prompt, a picture and the answer take ([\d,]+) tokens", output)
        assert taken is not None, output
        assert 17_000 < int(taken[1].replace(",", "")) < 25_000
        assert 'and the model "micro-vl" takes 16,384; shorten the --prompt-file' in output


def test_the_picture_counts_in_what_the_model_takes(model: Path) -> None:
    _config("text_config", "max_position_embeddings", to=100)(model)
    taken = re.search(r"take ([\d,]+) tokens", _refusal("transformers", model=str(model)))
    assert taken is not None
    number = int(taken[1].replace(",", ""))
    _config("text_config", "max_position_embeddings", to=number)(model)
    assert engine_module("transformers").describe(EngineOptions(model=str(model), max_pixels=MAX_PIXELS)).weights
    _config("text_config", "max_position_embeddings", to=number - 1)(model)
    assert f"take {number:,} tokens" in _refusal("transformers", model=str(model))
