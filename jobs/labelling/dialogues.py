"""`labels build dialogues`: a model writes a conversation about each labelled picture. What it writes is appended to a
file line by line, so that an interrupted command continues."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ingest.errors import EngineError, LabelsError, StorageError
from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.storage.place import place, reason_of
from jobs.console.engine_options import HEADING, EngineName
from jobs.console.requests import Below, Count, HashListUrl, Option, Seed, Url, checked_request, refuse_existing
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.tuning.labelled_pictures import labelled_pictures, labels_by_picture, targets_of
from reports.statistics.binary import Spread, spread
from reports.words import number
from scoring.assessment import SET_BY_SCANS, EngineOptions, ReportsTokenUsage, Unscored, View
from scoring.engines import engine_module
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.labels.table import labels_sha256
from scoring.protocols import protocol
from scoring.protocols.interface import AsksOtherwise, ProtocolOptions, Text
from scoring.tuning.dialogues import (
    ANSWER_TOKENS,
    LEFT_OUT,
    OPENINGS,
    VERSION,
    DialogueProtocol,
    WrittenDialogue,
    dialogue_protocol,
)
from scoring.tuning.targets import Candidate

LOADED_FOR = "binary:lenient"
"""Protocol for which the engine is loaded; every engine with a model has it."""

BATCH = 128
"""Pictures in memory. Those with the same label and class are asked about at once, and what is written is kept then."""

CHARACTERS_PER_TOKEN = 4
PIXELS_PER_TOKEN = 28 * 28
"""For the estimate before anything is sent. Of models of the Qwen family; others cut pictures differently."""

NO_ANSWER = "without an answer"


ASKED_HERE = frozenset(["protocol", "prompt_file", "thresholds"])
"""Fields of `EngineOptions` that `build dialogues` sets itself."""

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@checked_request
class DialoguesRequest:
    source: Annotated[Url, Option(argument="CORPUS")]
    """Folder, tar, Parquet file, glob, brace range, or fsspec URL of the labelled pictures."""

    labels: Url
    """Labels as Parquet or CSV, one per picture: private or not, and the class."""

    out: Annotated[Url, Option(metavar="FILE.jsonl")]
    """File of this machine to write; FILE.jsonl.part keeps what an interrupted command has."""

    engine: EngineName
    """What writes, an engine with a model: {}"""

    options: Annotated[EngineOptions, HEADING, Below({}, left_out=SET_BY_SCANS | ASKED_HERE)] = field(
        default_factory=EngineOptions
    )
    """What the engine is given."""

    num_pictures: Annotated[Count | None, Option("--n")] = None
    """Draw this many labelled pictures at random. [default: all]"""

    yes: bool = False
    """Send the pictures; without it only what that would cost is shown."""

    price_in: Annotated[Price | None, Option(metavar="PRICE")] = None
    """Price of a million tokens that the model reads."""

    price_out: Annotated[Price | None, Option(metavar="PRICE")] = None
    """Price of a million tokens that it writes."""

    seed: Seed = 0
    """Seed of the draw of --n, and of which question is asked for."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); no picture on it is sent."""


@dataclass(frozen=True)
class DialoguesResult:
    """What was asked for, and what was written; without --yes only the former."""

    num_pictures: int
    num_private: int
    num_done: int
    """Pictures that an earlier call has asked about."""

    num_left: int
    where: str
    """Engine, model and address, in words."""

    num_prompt_tokens: int
    num_answer_tokens: int
    """Estimates for the pictures that are left."""

    cost: float | None
    """By the prices that were given; None without any."""

    num_written: int = 0
    shape: dict[str, Spread] = field(default_factory=dict)
    """Turns, and words of either side, of one conversation: what Samson et al. print of theirs, in tokens."""

    left_out: dict[str, int] = field(default_factory=dict)
    """Why conversations are not in the file -> number of pictures."""

    usage: dict[str, int] = field(default_factory=dict)
    """Tokens of this call as the engine reports them."""

    @property
    def shape_in_words(self) -> str:
        parts = (f"{name} {number(each.mean, '.1f')} ± {number(each.sd, '.1f')}" for name, each in self.shape.items())
        return ", ".join(parts)


def run_build_dialogues(request: DialoguesRequest, feedback: Feedback = SILENT) -> DialoguesResult:
    """Write the conversations. LabelsError, SourceError, StorageError or EngineError in one line."""
    if not place(request.out).is_local:
        raise LabelsError(f"--out {request.out}: give a file of this machine, which conversations are appended to")
    if request.options.model is None:
        raise LabelsError("name the --model that writes, of an engine that has one, such as openai or transformers")
    refuse_existing(request.out)
    source = open_source(request.source, None, None)
    options = replace(request.options, protocol=LOADED_FOR)
    module = engine_module(request.engine)
    description = module.describe(options)
    chosen = _chosen(request, source, feedback)
    asked = {
        "version": VERSION,
        "engine": description.name,
        "protocol": description.protocol,
        "weights": description.weights,
        "labels": labels_sha256(request.labels),
        "seed": request.seed,
    }
    part = _Part(Path(f"{place(request.out).path}.part"), asked)
    to_ask = [candidate for candidate in chosen if candidate.sha256 not in part.done]
    num_prompt = sum(_prompt_tokens(candidate, options.max_pixels or DEFAULT_MAX_PIXELS) for candidate in to_ask)
    prices = (request.price_in, request.price_out)
    cost = None
    if prices != (None, None):
        cost = (num_prompt * (prices[0] or 0) + len(to_ask) * ANSWER_TOKENS * (prices[1] or 0)) / 1e6
    result = DialoguesResult(
        num_pictures=len(chosen),
        num_private=sum(bool(candidate.is_private) for candidate in chosen),
        num_done=len(chosen) - len(to_ask),
        num_left=len(to_ask),
        where=" ".join(filter(None, (request.engine, options.model, options.endpoint))),
        num_prompt_tokens=num_prompt,
        num_answer_tokens=len(to_ask) * ANSWER_TOKENS,
        cost=cost,
    )
    if not request.yes:
        return result
    usage = dict[str, int]()
    if to_ask:
        part.add(())  # a file that cannot be written costs no answers
        engine = module.load(options)
        if not isinstance(engine, AsksOtherwise):
            raise EngineError(f"the {request.engine} engine writes no text; choose openai, transformers or vllm")
        limits = ImageLimits(max_frames=1, max_side_px=description.max_side_px)
        with feedback.meter("conversations", len(to_ask)) as meter:
            for number, batch in enumerate(_batches(source, to_ask, limits)):
                for question, members in _alike(batch, f"{request.seed} {number}").items():
                    part.add(_lines(engine, question, members))
                    meter.advance(len(members))
        if isinstance(engine, ReportsTokenUsage):
            usage = {kind: num for kind, num in sorted(engine.usage.items()) if num}
    written = [line for line in part.done.values() if "turns" in line]
    wanted = {candidate.sha256: candidate for candidate in chosen}
    sides = {wanted[line["sha256"]].is_private for line in written if line["sha256"] in wanted}
    if len(sides) < 2:
        raise LabelsError(
            f"{len(written):,} conversations were kept, and not of both private and public pictures, so a model could "
            f"learn nothing from them; {part.file} says why others were left out"
        )
    place(request.out).write("".join(f"{_json(line)}\n" for line in written).encode())
    part.file.unlink(missing_ok=True)  # another process with the same --out may have been faster
    reasons = Counter(line["left_out"] for line in part.done.values() if "left_out" in line)
    return replace(result, num_written=len(written), shape=_shape(written), left_out=dict(reasons), usage=usage)


def _shape(written: Sequence[dict[str, Any]]) -> dict[str, Spread]:
    """Return how long the conversations are; a turn is a question and its answer."""
    num_words = {
        role: [sum(len(turn["text"].split()) for turn in line["turns"] if turn["role"] == role) for line in written]
        for role in ("user", "assistant")
    }
    return {
        "turns": spread([len(line["turns"]) / 2 for line in written]),
        **{f"words of the {role}": spread(counts) for role, counts in num_words.items()},
    }


def _chosen(request: DialoguesRequest, source: Source, feedback: Feedback) -> list[Candidate]:
    """Return the labelled pictures to ask about, in the order of the corpus."""
    targets = targets_of("binary", protocol("binary", ProtocolOptions()), False, None)
    labels = labels_by_picture(request.labels, None)
    pictures = labelled_pictures(source, labels, targets, feedback, hash_list_of(request.hash_list))
    if pictures.num_listed or pictures.num_not_compared:
        feedback.notice(
            f"left out because of --hash-list: {pictures.num_listed:,} listed, {pictures.num_not_compared:,} that "
            "cannot be compared"
        )
    if not pictures.candidates:
        raise LabelsError(f"{request.labels}: no label says of a picture of {request.source} whether it is private")
    if request.num_pictures is None or request.num_pictures >= len(pictures.candidates):
        return pictures.candidates
    drawn = sorted(
        pictures.candidates, key=lambda each: hashlib.sha256(f"{request.seed} {each.sha256}".encode()).digest()
    )
    taken = {candidate.sha256 for candidate in drawn[: request.num_pictures]}
    return [candidate for candidate in pictures.candidates if candidate.sha256 in taken]


def _prompt_tokens(candidate: Candidate, max_pixels: int) -> int:
    """Return about how many tokens the model reads for one picture, of which nothing but the limit is known."""
    messages = dialogue_protocol(bool(candidate.is_private), candidate.class_name, 0).prompt.messages
    texts = [part.text for message in messages for part in message.parts if isinstance(part, Text)]
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN + max_pixels // PIXELS_PER_TOKEN


class _Part:
    """The unfinished file: a line with what was asked for, then one per picture."""

    def __init__(self, file: Path, content: dict[str, Any]):
        """Read what is there; a cut last line is left out. content: what a continued command must have in common with
        the one before, else LabelsError."""
        self.file = file
        self.done = dict[str, dict[str, Any]]()
        self._begun = json.dumps({"asked": content}, sort_keys=True)
        if not file.exists():
            return
        lines = file.read_bytes().split(b"\n")
        cut = lines.pop()
        if not lines:  # killed before the first line was whole
            file.unlink()
            return
        if lines[0].decode("utf-8", "replace") != self._begun:
            raise LabelsError(
                f"{file} was begun with another model, labels or seed; give the same, remove it, or name another --out"
            )
        try:
            read = {line["sha256"]: line for line in map(json.loads, lines[1:])}
            # The model may answer the next time, when the endpoint works again.
            self.done = {sha256: line for sha256, line in read.items() if line.get("left_out") != NO_ANSWER}
        except (ValueError, LookupError, TypeError, AttributeError):
            raise LabelsError(f"{file} is damaged; remove it, and start again") from None
        if cut:
            file.write_bytes(b"\n".join([*lines, b""]))

    def add(self, lines: Sequence[dict[str, Any]]) -> None:
        self.done |= {line["sha256"]: line for line in lines}
        try:
            begun = [] if self.file.exists() else [self._begun]
            with self.file.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in [*begun, *map(_json, lines)])
        except OSError as error:
            raise StorageError(f"{self.file}: cannot be written: {reason_of(error)}") from None


def _json(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False)


def _batches(source: Source, left: Sequence[Candidate], limits: ImageLimits) -> Iterator[list[tuple[Candidate, View]]]:
    """Yield the pictures with their pixels. LabelsError if one is no longer there."""
    wanted = {(candidate.shard, candidate.index): candidate for candidate in left}
    batch = list[tuple[Candidate, View]]()
    for sample in source.samples():
        if (candidate := wanted.pop((sample.shard, sample.index), None)) is None:
            continue
        decoded = decode(sample.encoded, limits)
        if hashlib.sha256(sample.encoded).hexdigest() != candidate.sha256 or not isinstance(decoded, DecodedImage):
            raise LabelsError(f"{sample.shard}: a picture has changed; run the same command again")
        batch.append((candidate, View(decoded.views[0], decoded.metadata, candidate.sha256)))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if wanted:
        raise LabelsError(f"{len(wanted):,} pictures of the source have gone; run the same command again")
    if batch:
        yield batch


def _alike(batch: Sequence[tuple[Candidate, View]], lots: str) -> dict[DialogueProtocol, list[tuple[Candidate, View]]]:
    """Return what is asked -> the pictures of one label and class. lots: decides which question comes first."""
    groups = dict[DialogueProtocol, list[tuple[Candidate, View]]]()
    for candidate, view in batch:
        lot = hashlib.sha256(f"{lots} {candidate.is_private} {candidate.class_name}".encode()).digest()[0]
        asked = dialogue_protocol(bool(candidate.is_private), candidate.class_name, lot % len(OPENINGS))
        groups.setdefault(asked, []).append((candidate, view))
    return groups


def _lines(
    engine: AsksOtherwise, asked: DialogueProtocol, members: Sequence[tuple[Candidate, View]]
) -> list[dict[str, Any]]:
    """Return a line per picture: its turns, or why it has none."""
    lines = list[dict[str, Any]]()
    outcomes = engine.assess_with(asked, [view for _, view in members])
    for (candidate, _), outcome in zip(members, outcomes, strict=True):
        line: dict[str, Any] = {"sha256": candidate.sha256}
        if isinstance(outcome, WrittenDialogue):
            line["turns"] = [{"role": role, "text": text} for role, text in outcome.turns]
        else:
            line["left_out"] = NO_ANSWER
            if isinstance(outcome, Unscored) and outcome.reason == LEFT_OUT:
                line["left_out"] = outcome.message
        lines.append(line)
    return lines
