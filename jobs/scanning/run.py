"""A scan from its request to its result. Start here to follow one through."""

import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from os.path import abspath
from pathlib import Path

from ingest.errors import IncompleteError, RunError, SourceError, StorageError, number_of
from ingest.formats import refuse_without_pictures
from ingest.machine import num_cores
from ingest.sample import printable
from ingest.storage.place import Place, place
from jobs.runtime.cluster import inline_session, ray_session
from jobs.runtime.machines import pool_size, refuse_unfit_engine
from jobs.runtime.processes import FURTHER_AFTER_S, default_processes
from jobs.runtime.progress import SILENT, Feedback, Meter, weights_shown
from jobs.scanning import inline
from jobs.scanning.chosen import Chosen
from jobs.scanning.compacting import compact
from jobs.scanning.prepared import (
    check_category,
    checked_description,
    chosen_samples,
    cpus_per_engine,
    gpus_per_engine,
    is_on_cluster,
    num_samples,
    prepare,
    record_of,
    refuse_foreign_list,
    refuse_other_shards,
    source_notices,
    with_executor,
)
from jobs.scanning.request import IncompleteScanError, ScanRequest, ScanResources, ScanResult, Supervision
from jobs.scanning.slice_tasks import ScanSettings, ShowUnderWay, SliceCounts
from scoring.assessment import EngineDescription, EngineOptions, RemoteEngineModule
from scoring.runs import ATTEMPTS, REVIEWS, RUN_LEASE, RUN_RECORD
from scoring.runs.attempts import Attempts, EngineTimeFile
from scoring.runs.coverage import Tally, tally
from scoring.runs.footers import all_footers
from scoring.runs.lease import Lease, lease
from scoring.runs.ledger import CONFLICT, Ledger, finished, shard_id_of
from scoring.runs.record import (
    RunRecord,
    refuse_other,
    refuse_other_files,
    remove_unfinished,
    start_or_continue,
    with_built,
)
from scoring.runs.results import Results, results
from scoring.screen.guard import GuardCounts
from scoring.screen.model import refuse_other_features
from scoring.table import LISTED

CHECKOUT = Path(__file__).parents[2]
MIN_DECODE_THREADS = 2
"""For an engine of one CPU, too: its thread mostly waits for the model."""

MAX_COUNTED_FILES = 2000
"""Results whose rows are counted before a scan continues, so that progress begins there; more take too long. So do the
images of more folders and tables."""

MAX_COUNTED_TARS = 16

ScanSlices = Callable[[ScanSettings, list[str], Chosen, Ledger, ShowUnderWay], Generator[SliceCounts, None, None]]
"""The one signature of executors: `inline.scan_slices`, and `on_ray.scan_slices` with its engines."""


def run_scan(
    request: ScanRequest,
    resources: ScanResources | None = None,
    supervision: Supervision | None = None,
    feedback: Feedback = SILENT,
    *,
    in_random_order: bool = False,  # of the shards, so that the first ones say what the others take
) -> ScanResult:
    """Scan what the run lacks: afterwards each image of the request has one row.

    IncompleteScanError if images are left without a row, IncompleteError if the scan had to stop before its end; any
    other error of `ingest.errors` before a row is written.
    """
    with feedback.meter("scan", None) as progress, weights_shown(feedback, progress):
        progress.phase("listing shards", is_logged="://" in request.source)
        scan = _Scan(request, resources or ScanResources(), supervision or Supervision(), feedback, progress)
        return scan.run(in_random_order)


class _Scan:
    def __init__(
        self,
        request: ScanRequest,
        resources: ScanResources,
        supervision: Supervision,
        feedback: Feedback,
        progress: Meter,
    ) -> None:
        self._resources = with_executor(resources, request)
        self._supervision = supervision
        self._feedback = feedback
        self._progress = progress
        self._num_new = 0
        self._guard, self._is_doubted = GuardCounts(), False
        self._run = place(request.run)
        self._prepared, self._request = prepare(request), request
        self._engine_time = EngineTimeFile(self._run)
        if self._prepared.source.is_folder and self._run.is_within(self._prepared.source.root):
            raise RunError(f"{request.run} is inside the source; use a folder outside of it for --run")
        self._on_cluster = is_on_cluster(self._resources)

    def run(self, in_random_order: bool) -> ScanResult:
        for line in source_notices(self._prepared.source):
            self._feedback.notice(line)
        self._notice(travels(self._request.run))
        with ExitStack() as stack:
            if self._on_cluster:  # a machine of it describes the engine
                stack.enter_context(self._session())
            self._description = self._described()
            self._record = record_of(self._prepared, self._description)
            if refuse_other(self._run, self._record) is None and not self._on_cluster:
                # on a cluster, `checked_description` has done it
                if isinstance(self._prepared.module, RemoteEngineModule):
                    self._prepared.module.check(self._request.options)
                if self._prepared.screen is not None:
                    refuse_other_features(self._prepared.screen)
                self._refuse_source()
            own_lease = stack.enter_context(
                lease(self._run.at(RUN_LEASE), self._request.run, self._supervision.takeover)
            )
            Attempts(self._run.at(ATTEMPTS)).reset_failed()
            stack.enter_context(_discounting_interruption(self._run))
            if not self._on_cluster:
                stack.enter_context(self._session())
            return self._scanned(own_lease, in_random_order)

    def _described(self) -> EngineDescription:
        """Describe the engine, on a cluster by a machine that can run it: this one may lack the packages."""
        if not self._on_cluster:
            return self._prepared.module.describe(self._request.options)

        is_new = not self._run.at(RUN_RECORD).exists()
        if is_new:
            refuse_other_files(self._run)
            self._refuse_source()
        cpus, gpus = self._cpus(), gpus_per_engine(self._prepared, self._resources)
        refuse_unfit_engine(self._resources.ray_address, cpus, gpus)
        new_run = (self._prepared.source, self._run) if is_new else None
        return checked_description(
            self._request.engine, self._engine_options(), cpus, gpus, self._feedback, self._progress, new_run=new_run
        )

    def _refuse_source(self) -> None:
        refuse_without_pictures(self._prepared.source, self._request.source)
        check_category(self._prepared.source)

    def _scanned(self, own_lease: Lease, in_random_order: bool) -> ScanResult:
        refuse_foreign_list(self._prepared.source)
        is_on_ray, notice = self._resources.executor == "ray", self._feedback.notice
        chosen, facts = chosen_samples(self._request, self._prepared.source, is_on_ray, notice)
        self._record = self._record.model_copy(update=facts)
        shards = [shard for shard in self._prepared.source.shards if chosen is None or shard in chosen]
        scan_left = self._executor()
        begun = start_or_continue(self._run, self._record)
        before = results(self._run)
        refuse_other_shards(self._request.run, shards, before)
        settings = self._settings(begun)
        unfinished = [shard for shard in shards if not finished(shard, before.ledger)]
        if in_random_order:
            random.Random(0).shuffle(unfinished)
        if unfinished and begun.code != self._record.code:
            self._feedback.notice(
                f"{self._request.run} was begun with other code of privsieve; new rows are of this one"
            )
        num_chosen = None if chosen is None else sum(len(indices) for indices in chosen.values())
        failures: list[str] = []
        if unfinished and self._prepared.screen is not None:
            earlier = all_footers(self._run, before.listed, begun.settings_hash())
            self._guard = sum((GuardCounts.parsed(footer.screen) for footer in earlier), GuardCounts())
            self._check_guard()
        if unfinished:
            self._progress.resume(self._num_rows(before, begun.settings_hash()), num_chosen)
            if chosen is None and self._progress.is_shown:
                self._progress.phase("counting images", is_logged=False)
                self._expect_counted()
            self._progress.phase(f"loading {self._request.engine}")
            with closing(scan_left(settings, unfinished, chosen, before.ledger, self._progress.under_way)) as counts:
                failures = self._follow(counts, len(unfinished), len(shards), own_lease, begun)
        remove_unfinished(self._run)
        result = self._reconcile(shards, begun.settings_hash(), num_chosen, failures, before.ledger)
        compact(self._run, shards, begun.settings_hash(), own_lease, self._progress)
        return result

    def _expect_counted(self) -> None:
        """Count the images for the progress, if that takes moments: names of a folder, footers of tables, few tars."""
        source = self._prepared.source
        most = MAX_COUNTED_TARS if source.format == "webdataset" else MAX_COUNTED_FILES
        if source.root.is_local and len(source.shards) <= most:
            with suppress(SourceError, StorageError):  # the scan says what is wrong with a shard
                self._progress.expect(sum(num_samples(source, shard) for shard in source.shards))

    def _num_rows(self, before: Results, settings_hash: str) -> int:
        """Return the number of rows that the run has, for progress; 0 if it is hidden, or counting would be slow."""
        if not self._progress.is_shown or len(before.listed.names) > MAX_COUNTED_FILES:
            return 0
        try:
            return sum(footer.num_rows for footer in all_footers(self._run, before.listed, settings_hash))
        except (RunError, StorageError):
            return 0  # the end of the scan says which file is damaged

    def _check_guard(self) -> None:
        """Raise IncompleteError if people's answers contradict the bound of the screen; say once if the engine's do."""
        if self._prepared.screen is None:
            return
        from reports.screening.bounds import broken_bound, doubted_bound
        from scoring.labels.reviews import ReviewAnswers, guard_looks

        answers = ReviewAnswers(self._run.at(REVIEWS))
        answers.refresh()
        given = (self._guard, self._prepared.screen.record, guard_looks(answers.table()))
        broken = broken_bound(*given)
        if broken is not None:
            raise IncompleteError(broken)
        if not self._is_doubted and (doubted := doubted_bound(*given)):
            self._is_doubted = True
            self._notice(doubted)

    def _notice(self, line: str | None) -> None:
        if line is not None:
            self._feedback.notice(line)

    def _session(self) -> AbstractContextManager[None]:
        if self._resources.executor == "inline":
            return inline_session()
        self._progress.phase("starting Ray")
        return ray_session(self._resources.ray_address)

    def _executor(self) -> ScanSlices:
        """Return what scans the slices that are left. Call this inside the session."""
        if self._resources.executor == "inline":
            if self._resources.processes is not None:
                return partial(inline.scan_slices, num_processes=self._resources.processes)
            number = default_processes(self._description)
            return partial(inline.scan_slices, num_processes=number, further_after_s=FURTHER_AFTER_S)
        from jobs.scanning import on_ray

        address, cpus = self._resources.ray_address, self._cpus()
        gpus = gpus_per_engine(self._prepared, self._resources)
        refuse_unfit_engine(address, cpus, gpus)
        size, max_size = pool_size(address, cpus, gpus, self._resources.num_engines)
        pool = on_ray.EnginePool(size, max_size, cpus, gpus, self._on_cluster)
        scan_left = partial(on_ray.scan_slices, engines=pool)
        if not self._progress.is_shown:
            return lambda settings, shards, chosen, ledger, _: scan_left(settings, shards, chosen, ledger)
        return scan_left

    def _cpus(self) -> float:
        """Return the CPUs for each engine: on Ray those that it reserves. Call this inside the session."""
        if self._resources.executor == "ray":
            return cpus_per_engine(self._prepared, self._resources)
        if self._resources.engine_cpus is not None:
            return self._resources.engine_cpus
        is_fed_by_many = self._description.num_gpus > 0 and self._description.batches_at_once > 1
        return max(1, num_cores() - 1) if is_fed_by_many else 1

    def _engine_options(self) -> EngineOptions:
        """Return the options, with what the engine may use of its machine."""
        gpus = self._resources.engine_gpus
        share = gpus if gpus is not None and 0 < gpus < 1 else None
        return replace(self._request.options, cpus=self._cpus(), gpu_share=share)

    def _settings(self, begun: RunRecord) -> ScanSettings:
        description = self._description
        return ScanSettings(
            source=self._prepared.source,
            run=self._run,
            record=begun,
            options=replace(self._engine_options(), weights_sha256=frozenset(description.weights.values())),
            num_decode_threads=max(MIN_DECODE_THREADS, math.ceil(self._cpus())),
            code=self._record.code,
            stall_s=self._supervision.stall_seconds,
            description=description,
            hash_list=self._prepared.hash_list,
            screen=self._prepared.screen,
            image_memory_bytes=self._supervision.image_memory_bytes,
        )

    def _follow(
        self, scanned: Iterator[SliceCounts], num_left: int, num_shards: int, own_lease: Lease, begun: RunRecord
    ) -> list[str]:
        """Show how the scan goes on. Return why slices have no result, one line each."""
        failures: list[str] = []
        num_ended = num_shards - num_left
        for counts in scanned:
            own_lease.check()
            if counts.built_with:
                begun = with_built(self._run, begun, counts.built_with)
            if counts.engine_time:
                self._engine_time.add(counts.engine_time)
            if counts.is_fatal:
                raise IncompleteError(f"{counts.failure}; run the same command again to continue")
            if counts.guard is not None:
                self._guard += counts.guard
                if counts.guard.num_missed:
                    self._check_guard()
            self._progress.advance(counts.num_rows, counts.num_kept)
            self._num_new += counts.num_rows
            if counts.is_last:
                num_ended += 1
                self._progress.shards(num_ended, num_shards)
            if counts.failure:
                failures.append(counts.failure)
        self._engine_time.write()
        return failures

    def _reconcile(
        self, shards: list[str], settings_hash: str, num_chosen: int | None, failures: list[str], earlier: Ledger
    ) -> ScanResult:
        """Count what the run has now, after `earlier`. IncompleteScanError names shards without a result, and why."""
        source, now = self._prepared.source, results(self._run)
        Attempts(self._run.at(ATTEMPTS)).drop_ended(now.listed.names)
        missing = [shard for shard in shards if not finished(shard, now.ledger)]
        tally_ = tally(self._run, settings_hash, source, earlier, now)
        result = ScanResult(
            num_images=tally_.num_images,
            reasons=tally_.reasons,
            damage=tally_.damage,
            num_shards=len(shards),
            num_finished_shards=len(shards) - len(missing),
            num_new_images=self._num_new,
            seconds=self._progress.elapsed_s,
            images_per_s=self._progress.overall_images_per_s,
            num_screened=tally_.guard.num_screened,
        )
        if self._prepared.screen is not None and self._num_new:
            from reports.screening.bounds import drifted_share

            self._notice(drifted_share(tally_.guard, self._prepared.screen.record))
        changed = [printable(s) for s in missing if now.ledger.last.get(shard_id_of(s)) == CONFLICT]
        why = incomplete(self._request.run, shards, missing, [*changed, *tally_.changed], tally_, num_chosen, failures)
        if why is not None:
            raise IncompleteScanError(why, result)
        if tally_.num_hidden:
            hidden = number_of(tally_.num_hidden, "hidden file")
            self._feedback.notice(f"not scanned: {hidden} in tars; rename what belongs to the source")
        num_named, num_with = tally_.num_images - tally_.reasons.get(LISTED, 0), tally_.num_with_category
        if source.class_list is not None and num_with < num_named:
            without = f"{number_of(num_named - num_with, 'image')} of {tally_.num_images:,} without a category"
            self._feedback.notice(f"{without}: {source.class_list.url} does not name them")
        if source.category is not None and num_named and not num_with:
            no_name = f"no sample has a text or whole number in {source.category}"
            self._feedback.notice(f"the category is null in every row: {no_name}")
        return result


@contextmanager
def _discounting_interruption(run: Place) -> Iterator[None]:
    """Do not count an interruption by the user as a death of the slices that were being scanned."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(StorageError):
            Attempts(run.at(ATTEMPTS)).discount_interrupted()
        raise


def incomplete(
    run_url: str,
    shards: Sequence[str],
    missing: Sequence[str],
    changed: Sequence[str],
    tally: Tally,
    num_chosen: int | None,
    failures: Sequence[str],
) -> str | None:
    """Return why the run lacks rows, in one line that says what to do; None if it is complete.

    missing: the shards with slices without a result. changed: printable names of shards that changed between two scans.
    num_chosen: images that were to be scanned; None for all. failures: why slices have no result.
    """
    if changed:
        return (
            f"{changed[0]} changed between two scans of this run ({number_of(len(changed), 'such shard')}): remove its "
            f"results from {run_url}/scores and run the same scan again, or scan into a new run"
        )
    if missing:
        why = f" ({failures[0]})" if failures else ""
        return (
            f"{len(missing)} of {number_of(len(shards), 'shard')} have images without a row, {printable(missing[0])} "
            f"first{why}; `privsieve status {run_url}` lists them; run the same scan again to continue"
        )
    if num_chosen not in (None, tally.num_rows):
        return (
            f"{tally.num_rows} images have a row and {num_chosen} were chosen: the source changed between two scans of "
            "this run; scan into a new run"
        )
    return None


def travels(run: str, checkout: Path = CHECKOUT) -> str | None:
    """Return a caution if a run is in a checkout, where commands that send it to a cluster would take it along."""
    ignored = checkout / ".gitignore"
    folder = Path(abspath(run))
    if "://" in run or not ignored.is_file() or not folder.is_relative_to(checkout) or folder == checkout:
        return None
    first = folder.relative_to(checkout).parts[0]
    if any(fnmatchcase(first, line.strip("/")) for line in ignored.read_text().split() if line.endswith("/")):
        return None
    return (
        f"{run} is in the checkout of privsieve: `ray up` and `ray job submit --working-dir .` would send it to every "
        "machine of a cluster; keep runs elsewhere, or name it in .gitignore and cluster.yaml"
    )
