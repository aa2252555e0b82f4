"""Write what an image encoder sees of each picture, and its tags, for `same_tags.py` and `clean_labels.py`.

    python examples/papers/features.py PICTURES ENCODER.onnx OUT.parquet

PICTURES: a folder, tar or Parquet file, as `privsieve scan` takes them; tags are the words of a caption. ENCODER.onnx
takes (1, 3, H, W) with ImageNet's mean and deviation, and gives a vector: PrivacyAlert takes the last layer of a
ResNet-101 (privsieve help screen says how to export one). OUT has `sha256`, `key`, `caption` and `vector`: it holds
captions, so do not publish it.
"""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from ingest.errors import EngineError, PrivsieveError
from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.engines.detectors.models import LOGS_NOTHING, session_of

MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def features(pictures: str, encoder: str) -> Iterator[dict[str, object]]:
    """Yield a row for each picture that can be decoded, without copies."""
    try:
        session = session_of(encoder, LOGS_NOTHING)
    except Exception as error:  # a foreign file makes the library raise anything
        raise EngineError(f"{encoder} cannot be opened as an ONNX model ({type(error).__name__})") from None
    (asked,) = session.get_inputs()
    height, width = (side if isinstance(side, int) else 224 for side in asked.shape[2:])
    seen = set[str]()
    for sample in open_source(pictures, None, None).samples():
        image, sha256 = decode(sample.encoded, ImageLimits(max_frames=1)), hashlib.sha256(sample.encoded).hexdigest()
        if sha256 in seen or not isinstance(image, DecodedImage):
            continue
        seen.add(sha256)
        pixels = np.asarray(Image.fromarray(image.views[0]).resize((width, height), Image.Resampling.BICUBIC)) / 255
        given = ((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)[None].astype(np.float32)
        vector = np.asarray(session.run(None, {asked.name: given})[0], np.float32).ravel()
        yield {"sha256": sha256, "key": sample.key, "caption": sample.caption, "vector": vector.tolist()}


def main() -> None:
    if len(sys.argv) != 4 or "--help" in sys.argv:
        sys.exit(__doc__)
    pictures, encoder, out = sys.argv[1:]
    if Path(out).exists():
        sys.exit(f"{out} already exists; name another file, or remove it")
    schema = pa.schema(
        {"sha256": pa.string(), "key": pa.string(), "caption": pa.string(), "vector": pa.list_(pa.float32())}
    )
    try:
        table = pa.Table.from_pylist(list(features(pictures, encoder)), schema=schema)
    except PrivsieveError as error:
        sys.exit(str(error))
    pq.write_table(table, out)
    print(f"{table.num_rows:,} pictures in {out}")


if __name__ == "__main__":
    main()
