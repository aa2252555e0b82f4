"""Makes the 8-bit version of PP-OCR's detector that the engine `detectors` ships, from the one in rapidocr's wheel.

    python -m benchmarks.quantize --out FOLDER

Needs the package `onnx` (tried with 1.23) beside the development extra: `pip install onnx`. Weights are rounded to 7
bits, so that processors without VNNI add them up without overflow; the ranges of activations are read off the demo
pictures. It prints how much faster the result is, and how much of what either one sees as writing both see, on the same
pictures. A new model needs its hash in `scoring/engines/detectors/models.py` and in the NOTICE beside the weights.
"""

import hashlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import onnxruntime
import rapidocr
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.engines.detectors import MAX_SIDE_PX
from scoring.engines.detectors.models import TEXT_DETECTOR
from scoring.engines.detectors.ocr import LOOK_SCALE, SEARCH_SIDE_PX, normalized, resized

ORIGINAL = Path(rapidocr.__file__).parent / "models" / "PP-OCRv6_det_small.onnx"
INPUT = "x"
OPSET = 13
"""The first in which each channel of a convolution can have a scale of its own."""
NUM_FIRST = 5
"""Convolutions at the input that stay as they are."""
AFTER_MEANS = ("Add", "Conv", "HardSigmoid", "Identity", "Relu")
"""What a squeeze-and-excite block does with its means."""
LINE_FROM = 0.3
"""Probability from which lines are made."""
CORPORA = ("jobs/demo/corpus/shards", "jobs/demo/corpus/tree")


def inputs() -> list[Any]:
    """What the detector gets of the demo corpus, float32 of shape (1, 3, height, width): looks and searches."""
    found = []
    for pixels in _views():
        image = np.ascontiguousarray(pixels[:, :, ::-1])
        for side_px in (SEARCH_SIDE_PX, round(LOOK_SCALE * SEARCH_SIDE_PX)):
            found.append(normalized(resized(image, side_px)))
    return found


def _views() -> Iterator[Any]:
    for corpus in CORPORA:
        source = open_source(corpus, None, None)
        for shard in source.shards:
            for sample in (sample for slice_ in source.slices(shard) for sample in source.read(slice_)):
                decoded = decode(sample.encoded, ImageLimits(max_side_px=MAX_SIDE_PX))
                if isinstance(decoded, DecodedImage):
                    yield from decoded.views


class _Calibration(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime.quantization has no types
    def __init__(self, arrays: list[Any]) -> None:
        self._left = iter(arrays)

    def get_next(self) -> dict[str, Any] | None:
        array = next(self._left, None)
        return None if array is None else {INPUT: array}


def kept_as_they_are(graph: Any) -> list[str]:
    """Convolutions that cost little time and much precision: the first ones, the last, those with a weight per channel
    only, and those behind a mean over the whole picture (squeeze and excite)."""
    shapes = {weights.name: weights.dims for weights in graph.initializer}
    layers = [node for node in graph.node if node.op_type == "Conv"]
    kept = {layer.name for layer in [*layers[:NUM_FIRST], layers[-1]]}
    kept |= {layer.name for layer in layers if shapes[layer.input[1]][1] == 1}
    means: set[str] = set()
    for node in graph.node:  # in the order in which they run
        is_mean = node.op_type in ("GlobalAveragePool", "ReduceMean")
        if is_mean or (node.op_type in AFTER_MEANS and node.input[0] in means):
            means |= set(node.output)
            kept.add(node.name)
    return [layer.name for layer in layers if layer.name in kept]


def quantize(arrays: list[Any], out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        newer, prepared = Path(folder) / "newer.onnx", Path(folder) / "prepared.onnx"
        onnx.save(version_converter.convert_version(onnx.load(ORIGINAL), OPSET), newer)
        quant_pre_process(newer, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            out,
            _Calibration(arrays),
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=kept_as_they_are(onnx.load(prepared).graph),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    onnx.save(with_gelu(onnx.load(out)), out)


def with_gelu(model: Any) -> Any:
    """Make one node of each five that compute x / sqrt(2), erf, + 1, * x, * 0.5. onnxruntime joins these by itself, but
    not between values of 8 bits. The answers are the same."""
    graph = model.graph
    maker = {name: node for node in graph.node for name in node.output}
    user = {name: node for node in graph.node for name in node.input}  # each of these values has one
    nodes = list(graph.node)
    for erf in (node for node in graph.node if node.op_type == "Erf"):
        divided, added = maker[erf.input[0]], user[erf.output[0]]
        times_x = user[added.output[0]]
        halved = user[times_x.output[0]]
        gelu = onnx.helper.make_node("Gelu", divided.input[:1], halved.output, domain="com.microsoft")
        nodes[nodes.index(halved)] = gelu
        for node in (divided, erf, added, times_x):
            nodes.remove(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _session(model: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _timed(model: Path, arrays: list[Any]) -> tuple[float, list[Any]]:
    """CPU seconds, and for each array which pixels are writing."""
    session = _session(model)
    start = time.process_time()
    seen = [session.run(None, {INPUT: array})[0] >= LINE_FROM for array in arrays]
    return time.process_time() - start, seen


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(out: Path) -> None:
    arrays = inputs()
    quantize(arrays, out / TEXT_DETECTOR)
    seconds, seen = _timed(ORIGINAL, arrays)
    seconds_now, seen_now = _timed(out / TEXT_DETECTOR, arrays)
    both = [(a & b).sum() / (a | b).sum() for a, b in zip(seen, seen_now, strict=True) if (a | b).any()]
    click.echo(f"CPU time        {seconds_now / seconds:.2f} x the original's on {len(arrays)} inputs")
    click.echo(
        f"common writing  median {np.median(both):.3f}, lower tenth {np.quantile(both, 0.1):.3f} of what either sees"
    )
    click.echo(f"sha256          {hashlib.sha256((out / TEXT_DETECTOR).read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
