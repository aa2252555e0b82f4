"""`privsieve fetch METADATA --out SHARDS`: image URLs become WebDataset shards, each URL with an outcome.

DuckDB selects rows of the metadata; img2dataset, in an environment of its own, downloads them on Ray; its rows are
checked against the selection and become `fetch.parquet`, which is written last.
"""

import json
import logging
import os
import posixpath
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, ConfigDict

from ingest import __version__
from ingest.errors import IncompleteError, RunError, SourceError, StorageError
from ingest.storage.place import Place, place
from jobs.console.option_types import FiniteRange
from jobs.console.terminal import write_line
from scoring.runs.differences import differences
from scoring.runs.layout import RUN_LEASE
from scoring.runs.lease import lease
from scoring.sql.names import location

RECORD = "fetch.json"
OPT_OUT = ("noai", "noimageai", "noindex", "noimageindex", "none")
"""Directives of X-Robots-Tag that img2dataset obeys: the image is not kept."""


class FetchRecord(BaseModel):
    """What decides which bytes end in the shards. Two fetches into one folder must agree in all of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    privsieve: str
    img2dataset: str
    metadata: str
    where: str | None
    caption_keywords: tuple[str, ...]
    limit: int | None
    images_per_shard: int
    timeout_seconds: float
    retries: int
    max_bytes: int
    user_agent_token: str
    private_addresses: bool


class SelectionRecord(BaseModel):
    """The selection is whole: written after its files. num_rows: of all of them."""

    settings: FetchRecord
    num_rows: int
    columns: tuple[str, ...]


@click.command()
@click.argument("metadata")
@click.option("--out", "out_url", required=True, help="Folder or fsspec URL of the shards; continued if it exists.")
@click.option("--where", help="SQL condition over the metadata row, as: punsafe < 0.1 AND width >= 256")
@click.option("--caption-keywords", multiple=True, metavar="CLASS", help="Only captions with words of CLASS, as: card.")
@click.option("--limit", type=click.IntRange(min=1), help="Fetch only the first so many selected rows.")
@click.option("--images-per-shard", type=click.IntRange(min=2), default=1_000, show_default=True)
@click.option("--processes", type=click.IntRange(min=1), help="Shards at once; default one per CPU core.")
@click.option("--threads", type=click.IntRange(min=1), default=16, show_default=True, help="Requests per process.")
@click.option("--timeout", type=FiniteRange(min=0.1), default=10, show_default=True, help="Seconds per URL, in all.")
@click.option("--retries", type=click.IntRange(min=0), default=0, show_default=True, help="After any failure.")
@click.option("--max-bytes", type=click.IntRange(min=1), default=20_000_000, show_default=True, help="Per image.")
@click.option("--user-agent-token", default="privsieve", show_default=True, help="The name that hosts see.")
@click.option("--private-addresses", is_flag=True, help="Also ask hosts in private networks and this machine.")
@click.option("--environment", type=click.Path(path_type=Path), help="Where img2dataset is installed, once.")
@click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")
@click.option("--verbose", is_flag=True, help="Show what img2dataset says.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def fetch(
    metadata: str,
    out_url: str,
    where: str | None,
    caption_keywords: tuple[str, ...],
    limit: int | None,
    images_per_shard: int,
    processes: int | None,
    threads: int,
    timeout: float,
    retries: int,
    max_bytes: int,
    user_agent_token: str,
    private_addresses: bool,
    environment: Path | None,
    ray_address: str | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Download the images of METADATA (Parquet, CSV or TSV: a file, folder, glob or fsspec URL) as shards.

    Images that ask not to be used for AI (X-Robots-Tag, TDM-Reservation) are not kept. Bytes are kept as they are.
    """
    from jobs.fetching import environment as own_environment
    from jobs.fetching.outcome import FETCHED, finished_shards, reconcile

    address = ray_address or os.environ.get("RAY_ADDRESS") or "local"
    if processes is not None and address != "local":
        raise click.UsageError("--processes is for one machine: on a cluster every free CPU takes a shard")
    if not re.fullmatch(r"[\w.-]+", user_agent_token, re.ASCII):
        raise click.UsageError("--user-agent-token is one word of letters, digits, dots and dashes")
    record = FetchRecord(
        privsieve=__version__,
        img2dataset=own_environment.IMG2DATASET,
        metadata=metadata if "://" in metadata else os.path.abspath(metadata),
        where=where,
        caption_keywords=tuple(sorted(set(caption_keywords))),
        limit=limit,
        images_per_shard=images_per_shard,
        timeout_seconds=timeout,
        retries=retries,
        max_bytes=max_bytes,
        user_agent_token=user_agent_token,
        private_addresses=private_addresses,
    )
    out = place(out_url)
    _refuse_others_files(out, out_url)
    with _alone(out, out_url):
        selected = _selection(out, out_url, metadata, record)
        done = finished_shards(out)
        if sum(done.values()) < selected.num_rows:
            out.at(FETCHED).remove()  # it says that all is done
            folder = environment or own_environment.default_folder()
            python = own_environment.python_of(folder.absolute(), own_environment.requirements(out))
            ray: dict[str, Any] = {"address": address, "log_to_driver": verbose, "logging_level": logging.ERROR}
            if address == "local":
                ray["num_cpus"] = processes or os.cpu_count() or 1
            settings = {
                "bounds": {
                    "max_bytes": max_bytes,
                    "timeout_seconds": timeout,
                    "private_addresses": private_addresses,
                },
                "ray": ray,
                "runtime_env": {} if address == "local" else {"pip": own_environment.cluster_requirements(out)},
                "download": _download_settings(out, selected, threads),
            }
            _download(python, settings, out, selected.num_rows, done, verbose, quiet)
        outcomes = reconcile(out, selected.num_rows, images_per_shard)
    _print(outcomes, out_url)


@contextmanager
def _alone(out: Place, out_url: str) -> Iterator[None]:
    """Two fetches into one folder would write the same shards, and each its own selection, at once."""
    from jobs.fetching.outcome import SELECTED

    new_folders = [] if out.exists() else [out]
    with ExitStack() as stack:
        try:
            stack.enter_context(lease(out.at(SELECTED, RUN_LEASE), out_url, takeover=None))
        except RunError:
            raise RunError(f"{out_url} is being fetched by another privsieve; wait for it, or stop it") from None
        try:
            yield
        finally:
            stack.close()
            for folder in [out.at(SELECTED), *new_folders] if out.is_local else []:
                with suppress(OSError):
                    os.rmdir(folder.path)  # only where nothing was selected


def _refuse_others_files(out: Place, out_url: str) -> None:
    """StorageError where `out` is there and no fetch has begun in it."""
    from jobs.fetching.outcome import SELECTED

    if not out.exists() or out.at(SELECTED, RECORD).exists():
        return
    if not out.is_dir() or any(posixpath.basename(entry["name"]) != SELECTED for entry in out.entries()):
        raise StorageError(f"{out_url} holds other files and no fetch; use a new folder for --out")


def _selection(out: Place, out_url: str, metadata_url: str, record: FetchRecord) -> SelectionRecord:
    """The selection that lies in `out` already, if it was made with the same settings, else a new one."""
    from jobs.fetching.outcome import SELECTED
    from jobs.fetching.selection import open_metadata, selection_sql, write_selection

    folder = out.at(SELECTED)
    if folder.at(RECORD).exists():
        try:
            before = SelectionRecord.model_validate_json(folder.at(RECORD).read())
        except ValueError:
            raise RunError(
                f"{folder.path}/{RECORD} is damaged or of another version; fetch into a new folder"
            ) from None
        different = differences(before.settings, record)
        if different:
            raise RunError(f"{out_url} was fetched with other settings: {different}; use another --out")
        return before
    metadata = open_metadata(metadata_url)
    sql = selection_sql(metadata, record.where, record.caption_keywords, record.limit)
    _clear(folder)
    try:
        num_rows = write_selection(metadata, sql, folder, record.images_per_shard)
        if num_rows == 0:
            raise SourceError(f"no row of {metadata_url} is selected: nothing to fetch")
        new = SelectionRecord(settings=record, num_rows=num_rows, columns=tuple(metadata.written.values()))
        folder.at(RECORD).write((new.model_dump_json(indent=2) + "\n").encode())
    except BaseException:
        _clear(folder)
        raise
    return new


def _clear(selected: Place) -> None:
    """Removes what there is of a selection."""
    for name in selected.names():
        if name != RUN_LEASE:
            selected.at(name).remove()


def _download_settings(out: Place, selected: SelectionRecord, threads: int) -> dict[str, Any]:
    """Arguments of img2dataset.download: the original bytes under the name .jpg, nothing resized or re-encoded."""
    from jobs.fetching.outcome import SELECTED

    folder = location(out)
    record = selected.settings
    return {
        "url_list": f"{folder}/{SELECTED}",
        "input_format": "parquet",
        "url_col": "url",
        "caption_col": "caption" if "caption" in selected.columns else None,
        "save_additional_columns": [name for name in selected.columns if name not in ("url", "caption")],
        "output_folder": folder,
        "output_format": "webdataset",
        "number_sample_per_shard": record.images_per_shard,
        "incremental_mode": "incremental",
        "distributor": "ray",
        "thread_count": threads,
        "timeout": record.timeout_seconds,
        "retries": record.retries,
        "user_agent_token": record.user_agent_token,
        "disallowed_header_directives": list(OPT_OUT),
        "disable_all_reencoding": True,
        "resize_mode": "no",
        "extract_exif": False,
        "compute_hash": "sha256",
    }


def _download(
    python: Path, settings: dict[str, Any], out: Place, total: int, done: dict[str, int], verbose: bool, quiet: bool
) -> None:
    """Runs the program to its end. IncompleteError where it failed; what it finished by then stays."""
    from jobs.fetching.outcome import num_rows_announced
    from jobs.runtime.progress import meter

    with tempfile.TemporaryFile() as errors:
        with _program(python, settings, None if verbose else errors) as process, meter("fetch", total, quiet) as bar:
            bar.advance(sum(done.values()))
            while process.poll() is None:
                time.sleep(0.5)
                bar.advance(num_rows_announced(out, done))
        errors.seek(0)
        kinds = re.findall(rb"^([A-Za-z_]\w*\.[\w.]+|\w+(?:Error|Exception)): ", errors.read(), re.MULTILINE)
    if process.returncode:
        kind = f" ({kinds[-1].decode()})" if kinds else ""
        raise IncompleteError(
            f"img2dataset ended with code {process.returncode}{kind}; --verbose shows what it says; "
            "give the same command again to continue"
        )


@contextmanager
def _program(python: Path, settings: dict[str, Any], errors: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The program of `jobs.fetching.program`; it ends when this process does, however that ends."""
    program = Path(__file__).parent / "fetching" / "program.py"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "WANDB_MODE": "disabled", "NO_ALBUMENTATIONS_UPDATE": "1"}
    if settings["ray"]["address"] == "local":
        quiet["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on the loopback interface only
    process = subprocess.Popen(
        [str(python), "-I", str(program), json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=errors or sys.stderr,
        stderr=errors or sys.stderr,
        env=inherited | quiet,
        process_group=0,
        cwd=python.parent,  # Ray's workers import from where they are started, which may be anybody's folder
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        with suppress(ProcessLookupError):  # nothing is left, unless it was killed
            os.killpg(process.pid, signal.SIGKILL)


def _print(outcomes: Counter[str], out_url: str) -> None:
    num_failed = outcomes.total() - outcomes[""]
    reasons = ", ".join(f"{reason} {count}" for reason, count in outcomes.most_common() if reason)
    write_line(
        f"{outcomes.total()} URLs: {outcomes['']} downloaded, {num_failed} failed{f' ({reasons})' if reasons else ''}"
    )
    write_line(f"next: privsieve scan {out_url} --run RUN")
