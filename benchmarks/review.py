"""How long a reviewer waits for the next picture.

    python -m benchmarks.review [--pictures 2000] [--shards 20] [--side 1200] [--look 0.5] [--s3]

Makes tars of JPEG pictures, a run of them without an engine, and a server in this process. A reviewer asks for the next
pictures, looks at each for `--look` seconds, answers, and asks for the next, as the page does with its preloading
switched off: what is measured is the time from the request of a picture to its last byte, and that of an answer to its
acknowledgement. `--s3`: corpus and run lie on moto's server, which shares the cores with everything else.
"""

import io
import logging
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
import numpy as np
from PIL import Image

from ingest.storage.place import place
from jobs.scanning.request import ScanRequest, ScanResources
from jobs.scanning.run import run_scan
from tests.jobs.made import tar
from tests.reviewing.made import Person, served


def _jpeg(number: int, side: int) -> bytes:
    """A picture of about the bytes and detail of a photo of this size."""
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (side // 24, side // 16, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    coarse.resize((side, side * 2 // 3), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=88)
    return buffer.getvalue()


def _corpus(folder: Path, num_pictures: int, num_shards: int, side: int) -> int:
    num_bytes, per_shard = 0, num_pictures // num_shards
    for shard in range(num_shards):
        members = {f"{shard * per_shard + n:06d}.jpg": _jpeg(shard * per_shard + n, side) for n in range(per_shard)}
        num_bytes += sum(map(len, members.values()))
        tar(folder / f"{shard:05d}.tar", members)
    return num_bytes


def _shares(times: list[float]) -> str:
    return ", ".join(
        f"{name} {1000 * np.quantile(times, q):.0f} ms" for name, q in (("median", 0.5), ("95 %", 0.95))
    ) + (f", longest {1000 * max(times):.0f} ms")


@click.command()
@click.option("--pictures", default=2000, show_default=True)
@click.option("--shards", default=20, show_default=True)
@click.option("--side", default=1200, show_default=True, help="Pixels of the longer side.")
@click.option("--look", default=0.5, show_default=True, help="Seconds at each picture.")
@click.option("--asked", default=200, show_default=True, help="Pictures that are looked at.")
@click.option("--s3", is_flag=True)
def main(pictures: int, shards: int, side: int, look: float, asked: int, s3: bool) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "corpus").mkdir()
        num_bytes = _corpus(folder / "corpus", pictures, shards, side)
        source, run = str(folder / "corpus"), str(folder / "run")
        if s3:
            source, run = _uploaded(stack, folder / "corpus")
        run_scan(ScanRequest(source=source, run=run, engine="canned"), ScanResources(executor="inline"))
        began = time.perf_counter()
        with served(run, "index >= 0", num_pictures=pictures, reviewer="ana") as server:
            opened = time.perf_counter() - began
            ana = Person(server.address)
            waits, saves, first = list[float](), list[float](), 0.0
            while len(waits) < asked:
                for number in ana.next()[: asked - len(waits)]:
                    began = time.perf_counter()
                    assert ana.get(f"/api/picture/{number}").headers["content-type"] == "image/jpeg"
                    waits.append(time.perf_counter() - began)
                    time.sleep(look)
                    began = time.perf_counter()
                    assert ana.post("/api/answer", {"number": number, "answer": "private"}).status == 200
                    saves.append(time.perf_counter() - began)
                    ana.next()
            first, waits = waits[0], waits[1:]
    print(f"{pictures} pictures of {num_bytes / pictures / 1000:.0f} KB in {shards} tars{' on S3' if s3 else ''}")
    print(f"opened after {opened:.1f} s; first picture {1000 * first:.0f} ms")
    print(f"next picture: {_shares(waits)}")
    print(f"answer saved: {_shares(saves)}")


def _uploaded(stack: ExitStack, corpus: Path) -> tuple[str, str]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    stack.callback(server.stop)
    os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.get_host_and_port()[1]}"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    import s3fs

    s3fs.S3FileSystem(use_listings_cache=False).mkdir("corpora")
    for file in sorted(corpus.iterdir()):
        place(f"s3://corpora/corpus/{file.name}").write(file.read_bytes())
    return "s3://corpora/corpus", "s3://corpora/run"


if __name__ == "__main__":
    main()
