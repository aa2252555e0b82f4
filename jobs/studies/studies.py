"""The studies of tuning: how quality grows with the number of pictures, a class left out, the cost elsewhere.

All follow Samson et al., "Privacy-Aware Visual Language Models". The finding of a study is one sentence before its
tables.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ingest.errors import EngineError, LabelsError, SourceError, did_you_mean
from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits, Pixels
from ingest.machine import install_command
from ingest.storage.place import place
from jobs.console.requests import Count, Option, Seed, Url, Urls, checked_request
from jobs.runtime.progress import Feedback
from jobs.studies.points import PatchesAtLeast, PointResult, StudyRequest, begin, draw_set, tuned, untuned
from jobs.tuning.labelled_pictures import labels_by_picture
from reports.words import number
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px
from scoring.engines.vlm.adapter import adapter, check_fits, read_card
from scoring.engines.vlm.checkpoint import checkpoint
from scoring.tuning.targets import Draw, is_private
from scoring.tuning.vqa import NEUTRAL, Asked, BenchmarkName, VqaQuestion, vqa_questions

if TYPE_CHECKING:
    from scoring.tuning.outcome import Cost


@checked_request
class CostRequest:
    """Which adapter is compared with its base model, on what."""

    adapter: Annotated[Url, Option(argument="ADAPTER")]
    """Folder of a tuned adapter."""

    model: Url
    """A folder, a hub name such as owner/name, or a URL."""

    pictures: Url
    """Corpus of neutral pictures, unlike those of the tuning; with --benchmark the folder of its pictures."""

    num_pictures: Annotated[Count, Option("--n")] = 200
    """Pictures that are drawn; with --benchmark, questions."""

    benchmark: BenchmarkName | None = None
    """Ask its questions, and compare the answers with the right ones, too."""

    questions: Annotated[Urls, Option(metavar="FILE")] = ()
    """Files of --benchmark: of vqav2 the questions, then the annotations; of pope one file; of scienceqa
    problems.json."""

    seed: Seed = 0
    """Seed of the draw of pictures."""

    max_pixels: PatchesAtLeast | None = None
    """Width x height of pictures, as in scan; default what the adapter was tuned with."""

    def __post_init__(self) -> None:
        if (self.benchmark is None) != (not self.questions):
            raise LabelsError("--benchmark and --questions belong together: give both, or neither")


FIGURES = {"mcc": "MCC", "spearman": "Spearman ρ", "macro_f1": "macro F1"}
"""Metrics of a point. The first that is defined is the one of the study's target."""


@dataclass(frozen=True)
class StudyPoints:
    """What a study of tuning measured: of a curve, by number of pictures and seed; of classes that were left out as in
    the paper's Table 4, the untuned model first, then those tuned on all classes and without one."""

    points: tuple[PointResult, ...]


def run_curve(request: StudyRequest, sizes: Sequence[int], feedback: Feedback) -> StudyPoints:
    """Measure one point per size and seed; of one seed, a larger draw contains a smaller one. Size 0: untuned.

    LabelsError or EngineError in one line; what was measured before stays and is not measured again.
    """
    if not sizes or any(size < 0 or size == 1 for size in sizes):
        raise LabelsError("--sizes takes 0 (untuned) and numbers of pictures from 2 on, such as 0,10,50,100")
    draws = {
        f"n{size}-seed{seed}": Draw(seed=seed, num_pictures=size, validation_share=0.0)
        for size in sorted(set(sizes) - {0})
        for seed in request.seeds
    }
    points = _measured(request, "curve", draws, feedback)
    return StudyPoints(tuple(points if 0 in sizes else points[1:]))


def run_leave_one_out(request: StudyRequest, classes: Sequence[str], feedback: Feedback) -> StudyPoints:
    """Measure one point per class and seed. classes: to leave out, one at a time; empty: every private class.

    LabelsError or EngineError in one line; what was measured before stays and is not measured again.
    """
    labels = labels_by_picture(request.labels, None)
    private = sorted(
        {label.class_name for label in labels.every() if label.class_name and is_private(label) is not False}
    )
    if len(private) < 2:
        raise LabelsError(f"{request.labels}: names {len(private)} private classes; leaving one out takes at least two")
    for name in classes:
        if name not in private:
            raise LabelsError(
                f'{request.labels}: no private class "{name}"{did_you_mean(name, private)}; there are: '
                f"{', '.join(private)}"
            )
    draws: dict[str, Draw] = {}
    for seed in request.seeds:
        draws[f"all-seed{seed}"] = Draw(seed=seed, validation_share=0.0)
        for name in classes or private:
            point = f"without-{private.index(name)}-{re.sub('[^A-Za-z0-9_]', '_', name)[:40]}-seed{seed}"
            draws[point] = Draw(seed=seed, leave_out=(name,), validation_share=0.0)
    return StudyPoints(tuple(_measured(request, "leave-one-class-out", draws, feedback)))


def _measured(request: StudyRequest, kind: str, draws: Mapping[str, Draw], feedback: Feedback) -> list[PointResult]:
    """Measure the untuned model, then one tuned on each draw. All sets are drawn before the first tuning."""
    folder = begin(request, kind)
    base = untuned(request, folder, feedback)
    for name, draw in draws.items():
        draw_set(request, folder, name, draw, feedback)
    return [base, *(tuned(request, folder, name, draw, feedback) for name, draw in draws.items())]


def run_cost(request: CostRequest) -> "Cost":
    """Measure what tuning costs elsewhere. EngineError or SourceError in one line."""
    tuned = adapter(request.adapter)
    model = checkpoint(request.model, with_weights=True)
    check_fits(tuned, model.folder)
    card = read_card(tuned.folder)
    max_pixels = request.max_pixels or (card.max_pixels if card else DEFAULT_MAX_PIXELS)
    drawn: Iterator[Asked]
    if request.benchmark is None:
        drawn = ((picture, NEUTRAL) for picture in drawn_pictures(request, max_pixels))
    else:
        drawn = drawn_questions(request, vqa_questions(request.benchmark, request.questions), max_pixels)
    until_first: list[Asked] = []
    for picture, questions in drawn:
        until_first.append((picture, questions))
        if picture is not None:
            break
    else:
        raise SourceError(f"{request.pictures} holds no picture that can be decoded")
    try:
        from scoring.tuning.outcome import cost
    except ImportError as error:
        raise EngineError(f"study cost needs the package {error.name}: {install_command('tune')}") from None
    return cost(model, tuned, chain(until_first, drawn), max_pixels)


def drawn_questions(request: CostRequest, questions: Sequence[VqaQuestion], max_pixels: int) -> Iterator[Asked]:
    """Yield questions drawn at random, with their picture; None for one that is missing or cannot be decoded."""
    random = np.random.default_rng(request.seed)
    chosen = random.permutation(len(questions))[: request.num_pictures]
    limits = ImageLimits(max_frames=1, max_side_px=max_side_px(max_pixels))
    for index in sorted(chosen.tolist()):
        try:
            decoded = decode(place(request.pictures).at(questions[index].picture).content(), limits)
        except FileNotFoundError:
            decoded = None
        yield decoded.views[0] if isinstance(decoded, DecodedImage) else None, (questions[index],)


def drawn_pictures(request: CostRequest, max_pixels: int) -> Iterator[Pixels | None]:
    """Yield the pictures whose hashes come first, None for each that cannot be decoded.

    The choice is the same for a seed, whatever the order of the corpus. Each slice is read twice at most.
    """
    source = open_source(request.pictures, None, None)
    ranked = []
    slices = [slice_ for shard in source.shards for slice_ in source.slices(shard)]
    for slice_number, slice_ in enumerate(slices):
        for index, sample in enumerate(source.read(slice_)):
            if sample.fault is None:
                name = f"{request.seed} {hashlib.sha256(sample.encoded).hexdigest()}"
                ranked.append((hashlib.sha256(name.encode()).hexdigest(), slice_number, index))
    chosen: dict[int, set[int]] = defaultdict(set)
    for _, slice_number, index in sorted(ranked)[: request.num_pictures]:
        chosen[slice_number].add(index)
    limits = ImageLimits(max_frames=1, max_side_px=max_side_px(max_pixels))
    for slice_number, indices in sorted(chosen.items()):
        for index, sample in enumerate(source.read(slices[slice_number])):
            if index in indices:
                decoded = decode(sample.encoded, limits)
                yield decoded.views[0] if isinstance(decoded, DecodedImage) else None


def curve_finding(result: StudyPoints) -> str:
    """Return a sentence on the gain from the untuned model, or from the fewest pictures, to the most."""
    of_points = [(point.num_pictures, asdict(point)) for point in result.points]
    name = next((name for name in FIGURES if any(point[name] is not None for _, point in of_points)), "mcc")
    values = [(size, point[name]) for size, point in of_points if point[name] is not None]
    sizes = sorted({size for size, _ in values})
    if len(sizes) < 2:
        return "There are too few figures for a curve."
    least, most = (fmean([value for size, value in values if size == end]) for end in (sizes[0], sizes[-1]))
    first = "untuned" if sizes[0] == 0 else f"tuned on {sizes[0]:,} pictures"
    way = "rises" if most > least else "falls" if most < least else "stays the same,"
    return f"{FIGURES[name]} {way} from {number(least)} ({first}) to {number(most)} (tuned on {sizes[-1]:,} pictures)."


def leave_one_out_finding(result: StudyPoints) -> str:
    """Return a sentence on the class that is found least by a model that never saw it."""
    recalls = dict[str, list[float]]()
    for point in result.points:
        recall = point.classes.get(point.left_out, {}).get("recall") if point.left_out else None
        if point.left_out and recall is not None:
            recalls.setdefault(point.left_out, []).append(recall)
    if not recalls:
        return "No class that was left out has a figure."
    name, values = min(recalls.items(), key=lambda item: fmean(item[1]))
    return f"Left out of the tuning, {name} is found least: recall {number(fmean(values))}."
