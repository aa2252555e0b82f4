"""A scan from its request to its result. Start here to follow one through."""

import json
import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from ingest.class_list import read_class_list
from ingest.errors import IncompleteError, LabelsError, RunError, StorageError, number_of
from ingest.formats import Source, open_source, refuse_without_pictures
from ingest.images.decode import ImageLimits
from ingest.sample import printable
from ingest.storage.place import Place, place
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.hash_list import HashList, hash_list_of
from jobs.runtime.last_word import inline_session
from jobs.runtime.progress import Meter
from jobs.scanning.categories import check_category, no_category
from jobs.scanning.recording import record_of
from jobs.scanning.request import IncompleteScanError, ScanRequest, ScanResources, ScanResult, Supervision
from jobs.scanning.selection import Chosen, draw, draw_per_category, first
from jobs.scanning.settings import ScanSettings
from jobs.scanning.slice_tasks import ShowUnderWay, SliceCounts
from jobs.scanning.watchdog import heard
from scoring.assessment import EngineDescription, EngineModule, RemoteEngineModule
from scoring.engines import engine_module
from scoring.runs.attempts import Attempts
from scoring.runs.begin import refuse_other, remove_unfinished, start_or_continue, with_built
from scoring.runs.engine_time import EngineTime, add_engine_time
from scoring.runs.footers import footers
from scoring.runs.layout import ATTEMPTS, RUN_LEASE
from scoring.runs.lease import Lease, lease
from scoring.runs.ledger import CONFLICT, Ledger, finished, result_names, shard_id_in, shard_ids_of_others
from scoring.runs.reconcile import tally
from scoring.runs.record import RunRecord
from scoring.runs.results import Results, results
from scoring.table import LISTED

SILENT_STALLS = 3
MIN_SILENCE_S = 1800
"""After so many times `Supervision.stall_s` without a result, and so many seconds at least, a notice says so."""

MIN_DECODE_THREADS = 2
"""For an engine of one CPU, too: its thread waits for the model most of the time."""

KEEP_EVERY_S = 10.0
"""How often the time of the engines is written, and once at the end."""

MAX_COUNTED_FILES = 2000
"""Results whose rows are counted before a scan continues, so that progress begins where it was; more take too long."""

ScanSlices = Callable[[ScanSettings, list[str], Chosen, Ledger, ShowUnderWay], Generator[SliceCounts, None, None]]
"""The one signature of executors: `inline.scan_slices`, and `on_ray.scan_slices` with its engines."""


@dataclass(frozen=True)
class Prepared:
    """A request whose source, engine and options were found to be right. Nothing is written or loaded yet."""

    source: Source
    module: EngineModule
    description: EngineDescription
    limits: ImageLimits
    hash_list: HashList


def prepare(request: ScanRequest) -> Prepared:
    """EngineError, SourceError or LabelsError where the scan could not begin."""
    module = engine_module(request.engine)
    description = module.describe(request.options)
    class_list = None if request.labels is None else read_class_list(request.labels)
    source = open_source(request.source, request.format, request.category, class_list)
    hash_list = hash_list_of(request.hash_list)
    has_pdq = request.pdq or hash_list.needs_pdq
    limits = ImageLimits(request.max_pixels, request.max_frames, description.max_side_px, has_pdq)
    return Prepared(source, module, description, limits, hash_list)


def run_scan(
    request: ScanRequest,
    resources: ScanResources | None = None,
    supervision: Supervision | None = None,
    feedback: Feedback = SILENT,
) -> ScanResult:
    """Scans what the run lacks: afterwards each image of the request has one row.

    IncompleteScanError where images are left without a row, IncompleteError where the scan had to stop before its end;
    any other error of `ingest.errors` before a row is written.
    """
    with feedback.meter("scan", None) as progress:
        progress.phase("listing shards", is_logged="://" in request.source)
        return _Scan(request, resources or ScanResources(), supervision or Supervision(), feedback, progress).run()


class _Scan:
    def __init__(
        self,
        request: ScanRequest,
        resources: ScanResources,
        supervision: Supervision,
        feedback: Feedback,
        progress: Meter,
    ) -> None:
        self._request = request
        self._resources = resources
        self._supervision = supervision
        self._feedback = feedback
        self._progress = progress
        self._num_new = 0
        self._engine_time = EngineTime()
        self._kept_s = time.monotonic()
        self._prepared = prepare(request)
        self._run = place(request.run)
        if place(request.source).is_dir() and self._run.is_within(self._prepared.source.root):
            raise RunError(f"{request.run} lies in the source; use a folder outside of it for --run")
        self._record = record_of(request, self._prepared.source, self._prepared.description, self._prepared.hash_list)

    def run(self) -> ScanResult:
        if refuse_other(self._request.run, self._record) is None:
            self._check_engine()
            refuse_without_pictures(self._prepared.source, self._request.source)
            self._check_category()
        with lease(self._run.at(RUN_LEASE), self._request.run, self._supervision.takeover) as held:
            Attempts(self._run.at(ATTEMPTS)).reset_failed()
            with _discounting_interruption(self._run), self._session():
                self._refuse_foreign_list()
                chosen = self._chosen()
                if self._request.per_category and chosen is not None:
                    self._record = self._record.model_copy(update={"drawn": sum(map(len, chosen.values()))})
                shards = [shard for shard in self._prepared.source.shards if chosen is None or shard in chosen]
                scan_left = self._executor()
                begun = start_or_continue(self._request.run, self._record)
                before = results(self._run)
                _refuse_other_shards(self._request.run, shards, before)
                settings = self._settings(begun)
                left = [shard for shard in shards if not finished(shard, before.ledger)]
                if left and begun.code not in (None, self._record.code):
                    self._feedback.notice(
                        f"{self._request.run} was begun with other code of privsieve; new rows are of this one"
                    )
                num_chosen = None if chosen is None else sum(len(indices) for indices in chosen.values())
                failures: list[str] = []
                if left:
                    self._progress.resume(self._num_rows(before, begun.settings_hash()), num_chosen)
                    self._progress.phase(f"loading {self._request.engine}")
                    with closing(scan_left(settings, left, chosen, before.ledger, self._progress.under_way)) as found:
                        failures = self._follow(found, len(left), len(shards), held, begun)
            remove_unfinished(self._run)
            return self._reconcile(shards, begun.settings_hash(), num_chosen, failures, before.ledger)

    def _num_rows(self, before: Results, settings_hash: str) -> int:
        """Rows that the run has already, for progress; 0 where nobody looks, or to count them would take long."""
        ledger = before.ledger
        names = [name for shard in self._prepared.source.shards for name in result_names(shard, ledger)]
        if not self._progress.is_shown or before.ranges is not None or len(names) > MAX_COUNTED_FILES:
            return 0
        try:
            return sum(footer.num_rows for footer in footers(self._run, names, settings_hash))
        except (RunError, StorageError):
            return 0  # the end of the scan says which file is damaged

    def _check_engine(self) -> None:
        """EngineError where a new run would get no answer. A cluster may have another key and reach other addresses."""
        from jobs.runtime.cluster import is_this_machine

        is_here = self._resources.executor == "inline" or is_this_machine(self._resources.ray_address)
        if is_here and isinstance(self._prepared.module, RemoteEngineModule):
            self._prepared.module.check(self._request.options)

    def _check_category(self) -> None:
        """SourceError where `--category` names nothing that samples have; a notice where they contradict themselves."""
        contradiction = check_category(self._prepared.source)
        if contradiction:
            self._feedback.notice(contradiction)

    def _session(self) -> AbstractContextManager[None]:
        if self._resources.executor == "inline":
            return inline_session("run the same scan again to continue")
        self._progress.phase("starting Ray")
        from jobs.runtime.cluster import ray_session

        return ray_session(self._resources.ray_address)

    def _executor(self) -> ScanSlices:
        """What scans the slices that are left; to be called inside of the session."""
        if self._resources.executor == "inline":
            from jobs.scanning import inline

            return inline.scan_slices
        from jobs.runtime.cluster import default_num_engines, default_num_gpus, refuse_impossible
        from jobs.scanning import on_ray

        address, cpus, gpus = self._resources.ray_address, self._resources.engine_cpus, self._resources.engine_gpus
        if gpus is None:
            gpus = default_num_gpus(address, self._prepared.description.num_gpus)
        refuse_impossible(address, cpus, gpus)
        size = self._resources.num_engines or default_num_engines(address, cpus, gpus)
        size = min(size, self._resources.max_engines or size)
        pool = on_ray.EnginePool(size, self._resources.max_engines or size, cpus, gpus)
        scan_left = partial(on_ray.scan_slices, engines=pool)
        if not self._progress.is_shown:
            return lambda settings, left, chosen, ledger, _: scan_left(settings, left, chosen, ledger)
        return scan_left

    def _settings(self, begun: RunRecord) -> ScanSettings:
        description = self._prepared.description
        cpus, gpus = self._resources.engine_cpus, self._resources.engine_gpus
        is_inline = self._resources.executor == "inline"  # where the engine has what the machine has
        options = replace(
            self._request.options,
            cpus=None if is_inline else cpus,
            gpu_share=gpus if gpus is not None and 0 < gpus < 1 else None,
        )
        return ScanSettings(
            source=self._prepared.source,
            run=self._run,
            engine=self._request.engine,
            options=options,
            num_decode_threads=max(MIN_DECODE_THREADS, math.ceil(cpus)),
            limits=self._prepared.limits,
            settings_hash=begun.settings_hash(),
            code=self._record.code or "",
            stall_s=self._supervision.stall_s,
            batches_at_once=description.batches_at_once,
            uses_caption=description.uses_caption,
            has_canary=description.num_gpus > 0,
            hash_list=self._prepared.hash_list,
            image_memory_bytes=self._supervision.image_memory_bytes,
        )

    def _chosen(self) -> Chosen:
        """The samples to scan, None for all. To draw from all, every shard has to be listed first."""
        request, source = self._request, self._prepared.source
        if request.limit is not None:
            return first(*_first_counts(source, request.limit), request.limit)
        if request.sample is None:
            return None
        shards = list(source.shards)
        if self._resources.executor == "inline":
            from jobs.scanning.inline import categories_of, count_samples
        else:
            from jobs.scanning.on_ray import categories_of, count_samples
        if request.per_category:
            categories = categories_of(source, shards)
            chosen, num_without = draw_per_category(shards, categories, request.sample, request.seed or 0)
            if num_without:
                self._feedback.notice(f"{number_of(num_without, 'image')} without a category cannot be drawn")
            return chosen
        return draw(shards, count_samples(source, shards), request.sample, request.seed or 0)

    def _refuse_foreign_list(self) -> None:
        """LabelsError where `--labels` names no image of the source. Stops at the first that it names."""
        source = self._prepared.source
        if source.class_list is None:
            return
        try:
            if any(of for shard in source.shards for of in source.categories(shard)):
                return
        except StorageError:  # the scan says of which shard, and the class may stand in it
            return
        raise LabelsError(
            f"{source.class_list.url}: none of its {number_of(source.class_list.num_names, 'name')} is one of the "
            "source's images; names must be the keys of the rows, with or without folders and extension"
        )

    def _follow(
        self, found: Iterator[SliceCounts], num_left: int, num_shards: int, held: Lease, begun: RunRecord
    ) -> list[str]:
        """Shows how the scan goes on; returns why slices have no result, one line each."""
        failures: list[str] = []
        num_ended = num_shards - num_left
        silence_s = max(MIN_SILENCE_S, SILENT_STALLS * self._supervision.stall_s)
        for counts in heard(found, silence_s, lambda: self._notice_silence(silence_s)):
            held.check()
            if counts.built_with:
                begun = with_built(self._request.run, begun, json.loads(counts.built_with))
            if counts.engine_time:
                self._keep(EngineTime.model_validate_json(counts.engine_time))
            if counts.is_fatal:
                raise IncompleteError(f"{counts.failure}; run the same command again to continue")
            self._progress.advance(counts.num_rows)
            self._num_new += counts.num_rows
            if counts.is_last:
                num_ended += 1
                self._progress.shards(num_ended, num_shards)
            if counts.failure:
                failures.append(counts.failure)
        self._write_engine_time()
        return failures

    def _keep(self, more: EngineTime) -> None:
        self._engine_time += more
        if time.monotonic() - self._kept_s > KEEP_EVERY_S:
            self._write_engine_time()

    def _write_engine_time(self) -> None:
        if self._engine_time.seconds:
            add_engine_time(self._run, self._engine_time)
        self._engine_time, self._kept_s = EngineTime(), time.monotonic()

    def _notice_silence(self, silence_s: float) -> None:
        self._feedback.notice(
            f"no slice has ended for {silence_s / 60:.0f} min; an engine may still be loading, or a worker is "
            "stopped: if no process of this scan is at work, end it with Ctrl-C and run the same command again"
        )

    def _reconcile(
        self, shards: list[str], settings_hash: str, num_chosen: int | None, failures: list[str], earlier: Ledger
    ) -> ScanResult:
        """Counts what the run has now. IncompleteScanError says which shards have slices without a result, and why.

        earlier: what the run had before this scan.
        """
        url, source, now = self._request.run, self._prepared.source, results(self._run)
        missing = [shard for shard in shards if not finished(shard, now.ledger)]
        found = tally(self._run, settings_hash, source, earlier, now)
        result = ScanResult(
            num_images=found.num_images,
            reasons=found.reasons,
            damage=found.damage,
            num_shards=len(shards),
            num_finished_shards=len(shards) - len(missing),
            num_new_images=self._num_new,
            seconds=self._progress.elapsed_s,
            images_per_s=self._progress.overall_images_per_s,
        )
        changed = [printable(s) for s in missing if now.ledger.last.get(shard_id_in(s, now.ledger)) == CONFLICT]
        changed += found.changed
        if changed:
            raise IncompleteScanError(
                f"{changed[0]} changed between two scans of this run ({number_of(len(changed), 'such shard')}): remove "
                f"its results from {url}/scores and run the same scan again, or scan into a new run",
                result,
            )
        if not missing and num_chosen not in (None, found.num_rows):
            raise IncompleteScanError(
                f"{found.num_rows} images have a row and {num_chosen} were chosen: the source changed between two "
                "scans of this run; scan into a new run",
                result,
            )
        if missing:
            why = f" ({failures[0]})" if failures else ""
            raise IncompleteScanError(
                f"{len(missing)} of {number_of(len(shards), 'shard')} have images without a row, "
                f"{printable(missing[0])} first"
                f"{why}; `privsieve status {url}` lists them; run the same scan again to continue",
                result,
            )
        num_named = found.num_images - found.reasons.get(LISTED, 0)
        if source.class_list is not None and found.num_with_category < num_named:
            without = number_of(num_named - found.num_with_category, "image")
            self._feedback.notice(
                f"{without} of {found.num_images:,} without a category: {source.class_list.url} does not name them"
            )
        if source.category is not None and num_named and not found.num_with_category:
            self._feedback.notice(f"the category is null in every row: {no_category(source, source.category)}")
        return result


@contextmanager
def _discounting_interruption(run: Place) -> Iterator[None]:
    """An interruption by the user does not count as a death of the slices that were being scanned."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(StorageError):
            Attempts(run.at(ATTEMPTS)).discount_interrupted()
        raise


def _refuse_other_shards(run_url: str, shards: list[str], found: Results) -> None:
    """RunError where the source lost shards that have rows, or a compacted run, which is closed, would get more."""
    gone = shard_ids_of_others(shards, found.ledger)
    if gone:
        are = "is" if len(gone) == 1 else "are"
        raise RunError(
            f"{number_of(len(gone), 'shard')} that {run_url} has rows of {are} gone from the source "
            f"({printable(gone[0])} first); "
            "restore them, or scan the source into a new run"
        )
    new = [shard for shard in shards if not finished(shard, found.ledger)]
    if new and found.ranges is not None:
        raise RunError(
            f"{run_url} is compacted, and the source has {number_of(len(new), 'shard')} more "
            f"({printable(new[0])} first); scan them into a run of their own"
        )


def _first_counts(source: Source, limit: int) -> tuple[list[str], list[int]]:
    """The first shards and how many samples each has, as many as hold `limit` samples."""
    counts: list[int] = []
    for shard in source.shards:
        counts.append(sum(len(one.locators) for one in source.slices(shard)))
        if sum(counts) >= limit:
            break
    return list(source.shards[: len(counts)]), counts
