"""Everything that a report says, as frozen data. Text, JSON, CSV and HTML are only ways to show it.

Rules of honesty: quarantined images have no level and are in no rate; an attribute that was not assessed is never
counted as absent; a rate comes with its 95 % interval; names that a corpus gives are data and are made printable.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ingest.errors import QueryError
from ingest.images.unseen import UNSEEN_KINDS
from ingest.sample import printable
from reports.warehouse import IMAGE_SCHEMA, LEVEL_COUNTS, PRIVATE, Run, privacy_condition
from scoring.gaps import ruled_out_by
from scoring.made_up import made_up
from scoring.policies.level_zero import ADVICE, matches_level_0_too
from scoring.runs.coverage import Coverage
from scoring.runs.record import WHOLE
from scoring.sql.expressions import shown, value_expression
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS, Attribute

MAX_GROUPS = 10_000
"""More groups than this make no report that anyone reads; `--by` was probably an identifier."""

MAX_SHOWN_CHARACTERS = 200
"""Of a group's name in the text and the page. A category can be pages long; JSON and CSV hold all of it."""


def shortened(name: str, most: int = MAX_SHOWN_CHARACTERS) -> str:
    """The name in at most so many characters, with an ellipsis where it is cut."""
    return name if len(name) <= most else name[: most - 1] + "…"


@dataclass(frozen=True)
class Level:
    """share: of the scored images, 0–1, None where none is scored."""

    level: int
    name: str
    num_images: int
    share: float | None


@dataclass(frozen=True)
class Prevalence:
    """share: present among the images where it was assessed, 0–1; None where it never was.

    is_lower_bound: the engine affirms the attribute but never denies it; then the share is of all scored images, and
    None if it was found in none.
    """

    attribute: str
    title: str
    level: int
    num_present: int
    num_ambiguous: int
    num_absent: int
    num_not_assessed: int
    share: float | None
    is_lower_bound: bool

    @property
    def is_never_found(self) -> bool:
        """Looked for and found in no image; the engine cannot rule it out."""
        return self.is_lower_bound and self.share is None


@dataclass(frozen=True)
class Rate:
    """One group. num_scored: N without quarantined images. num_unknown: scored, but the condition is null there.

    privacy_rate, rate_low, rate_high: 0–1, 95 % Wilson interval over num_scored - num_unknown; None where that is 0.
    """

    group: str
    num_scored: int
    num_private: int
    num_unknown: int
    privacy_rate: float | None
    rate_low: float | None
    rate_high: float | None
    num_quarantined: int


@dataclass(frozen=True)
class Reason:
    reason: str
    num_images: int


@dataclass(frozen=True)
class UnseenContent:
    """num_images: with content that was not scanned; by_kind: of each kind in it (`ingest.images.unseen.UNSEEN_KINDS`).

    num_unknown: decoded images of which it is not known, since an older version scanned them.
    """

    num_images: int
    num_unknown: int
    by_kind: dict[str, int]


@dataclass(frozen=True)
class GroupLevels:
    """nums: scored images of levels 1, 2, 3, 4 and 0, in that order."""

    group: str
    nums: tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Pair:
    """num_images: scored images that show `attribute`. num_assessed: those of them in which `other` was assessed.

    share: num_both / num_images, 0–1; None where `other` was assessed in none of them. is_lower_bound: where it was not
    assessed in some.
    """

    attribute: str
    other: str
    num_both: int
    num_images: int
    num_assessed: int
    share: float | None
    is_lower_bound: bool


@dataclass(frozen=True)
class Report:
    """scope: which images of the source the run is of; is_whole: whether these are all. made_up: a warning where the
    answers are not of the pictures.

    assessed: keys that the engine can judge. by, private: as the user wrote them. private_meaning: one sentence.
    total: the rate over all images. rates: groups with at least `min_count` scored images, highest rate first;
    num_groups counts all of them. top: how many of the highest and of the lowest to show where space is short.
    coverage: None where it was not looked up. rejections: the quarantined images of this reason by their kind.
    """

    run: str
    source: str
    scope: str
    is_whole: bool
    engine: str
    made_up: str | None
    assessed: tuple[str, ...]
    num_images: int
    num_scored: int
    num_quarantined: int
    by: str
    private: str
    private_meaning: str
    min_count: int
    top: int
    levels: tuple[Level, ...]
    prevalence: tuple[Prevalence, ...]
    total: Rate
    rates: tuple[Rate, ...]
    num_groups: int
    quarantined: tuple[Reason, ...]
    unseen: UnseenContent
    levels_by_group: tuple[GroupLevels, ...]
    cooccurrence: tuple[Pair, ...]
    coverage: Coverage | None = None
    rejections: tuple[Reason, ...] = ()

    def covering(self, coverage: Coverage) -> "Report":
        """This report, and what was found out about the source."""
        is_whole = self.is_whole or coverage.has_all
        return replace(self, coverage=coverage, is_whole=is_whole, scope=WHOLE if is_whole else self.scope)

    @property
    def num_not_assessed(self) -> int:
        """Attributes of the taxonomy that the engine does not judge."""
        return len(KEYS) - len(self.assessed)

    @property
    def warning(self) -> str | None:
        """Where the figures are of a part of the source only."""
        return self.coverage.warning if self.coverage else None

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why the figures are not those of the whole source, or of no picture at all; one line each."""
        found = (None if self.is_whole else self.scope, self.warning, self.made_up)
        return tuple(caution for caution in found if caution)

    @property
    def headlines(self) -> tuple[str, ...]:
        """What a reader must know before any figure, one line each."""
        lines = [self.scope] if self.is_whole and not self.warning else []
        lines += [
            *self.cautions,
            f"run         {self.run}",
            f"source      {self.source}",
            f"engine      {self.engine}",
            f"images      {self.num_images:,}: {self.num_scored:,} scored, {self.num_quarantined:,} quarantined",
            f"attributes  the engine assesses {len(self.assessed)} of {len(KEYS)}",
        ]
        if self.num_not_assessed:
            missing = ", ".join(key for key in KEYS if key not in self.assessed)
            lines.append(f"            not assessed: {missing}")
            lines.append("            levels and rates count only what was assessed: the real ones can be higher")
        return tuple(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the rates were made, one sentence each."""
        notes = ["N: scored images; quarantined images are in no rate."]
        if not self.assessed and self.total.num_unknown == self.total.num_scored:
            notes.append(
                'The engine judged no attribute. For answers of the protocol binary use --private "private = 1", for '
                'those of severity --private "holistic_score >= 0.514" (levels 1 and 2).'
            )
        if self.total.num_unknown:
            notes.append(
                f"unknown ({self.total.num_unknown:,}): scored images for which the condition needs what could not be "
                "judged in them, such as text in a script that is not read. rate: private / (N - unknown)."
            )
        without = sum(rate.privacy_rate is None and rate.num_unknown > 0 for rate in self.rates)
        if without:
            notes.append(f"{without:,} of {self.num_groups:,} groups have no rate, since all their images are unknown.")
        hidden = self.num_groups - len(self.rates)
        if hidden:
            few = (
                "no scored image"
                if self.min_count == 1
                else f"fewer than {self.min_count:,} scored images (--min-count)"
            )
            notes.append(f"Not listed: {hidden:,} of {self.num_groups:,} groups, with {few}.")
        return tuple(notes)

    @property
    def unseen_note(self) -> str | None:
        """How many files hold more than was scanned; None where it is known that none does."""
        if not self.unseen.num_images:
            if not self.unseen.num_unknown:
                return None
            return f"Whether {self.unseen.num_unknown:,} images hold content that was not scanned was not recorded."
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.unseen.by_kind.items() if count)
        unknown = f"; not known of {self.unseen.num_unknown:,}" if self.unseen.num_unknown else ""
        return f"{self.unseen.num_images:,} images hold content that was not scanned ({kinds}){unknown}."

    @property
    def highest(self) -> tuple[Rate, ...]:
        """The `top` groups of highest rate, highest first."""
        return tuple(rate for rate in self.rates if rate.privacy_rate is not None)[: self.top]

    @property
    def lowest(self) -> tuple[Rate, ...]:
        """The `top` groups of lowest rate that `highest` does not hold, lowest first."""
        known = [rate for rate in self.rates if rate.privacy_rate is not None]
        return tuple(reversed(known[self.top :][-self.top :])) if self.top else ()


def summarise(run: Run, by: str = "category", private: str = PRIVATE, min_count: int = 1, top: int = 15) -> Report:
    """Ask every question of `queries/`. QueryError where `by` or `private` is not an expression over the row."""
    groups = _groups(run, by, private)
    kept = [group for group in groups if group["num_scored"] >= min_count]
    with run.patterns_kept():
        prevalence = {row["attribute"]: row for row in run.ask("prevalence")}
        cooccurrence = [Pair(**row) for row in run.ask("cooccurrence")]
    total = _total(run, groups)
    affirmed = run.record.engine.get("only_affirmed") or ()
    return Report(
        run=printable(run.url),
        source=printable(run.record.source),
        scope=run.record.scope,
        is_whole=run.record.is_whole,
        made_up=made_up(run.record.engine),
        engine=_engine(run.record.engine),
        assessed=_assessed(run.record.engine, prevalence),
        num_images=total.num_scored + total.num_quarantined,
        num_scored=total.num_scored,
        num_quarantined=total.num_quarantined,
        by=by,
        private=private,
        private_meaning=_private_meaning(private, _private_sql(run, private)),
        min_count=min_count,
        top=top,
        levels=_levels(groups),
        prevalence=tuple(_prevalence(attribute, prevalence.get(attribute.key), affirmed) for attribute in ATTRIBUTES),
        total=total,
        rates=tuple(map(_rate, kept)),
        num_groups=len(groups),
        quarantined=tuple(Reason(printable(row["reason"]), row["num_images"]) for row in run.ask("quarantined")),
        unseen=_unseen(run),
        levels_by_group=tuple(
            GroupLevels(printable(group["group_name"]), (one, two, three, four, zero))
            for group in sorted(kept, key=lambda group: group["group_name"])
            if group["num_scored"]
            for one, two, three, four, zero in [[group[count] for count in LEVEL_COUNTS.values()]]
        ),
        cooccurrence=tuple(sorted(cooccurrence, key=lambda pair: (KEYS.index(pair.attribute), KEYS.index(pair.other)))),
        rejections=tuple(Reason(printable(row["message"]), row["num_images"]) for row in run.ask("rejections")),
    )


def rates(run: Run, by: str = "category", private: str = PRIVATE) -> tuple[Rate, ...]:
    """Every group, highest rate first, by one pass over the rows. QueryError as with `summarise`."""
    return tuple(map(_rate, _groups(run, by, private)))


def _groups(run: Run, by: str, private: str) -> list[dict[str, Any]]:
    by_sql = value_expression(by, IMAGE_SCHEMA)
    groups = run.ask("rates", by=by_sql, private=_private_sql(run, private), most=str(MAX_GROUPS + 1))
    if len(groups) > MAX_GROUPS:
        raise QueryError(
            f"{shown(by)} makes more than {MAX_GROUPS:,} groups, and a report holds no more; group by less"
        )
    return groups


def _private_sql(run: Run, private: str) -> str:
    return privacy_condition(private, ruled_out_by(run.record.engine))


def _total(run: Run, groups: list[dict[str, Any]]) -> Rate:
    scored, private, unknown, quarantined = (
        sum(group[count] for group in groups)
        for count in ("num_scored", "num_private", "num_unknown", "num_quarantined")
    )
    judged = scored - unknown
    interval = run.ask("interval", num_private=str(private), num_judged=str(judged))[0]
    return Rate(
        "all", scored, private, unknown, private / judged if judged else None, **interval, num_quarantined=quarantined
    )


def _levels(groups: list[dict[str, Any]]) -> tuple[Level, ...]:
    counts = {level: sum(group[count] for group in groups) for level, count in LEVEL_COUNTS.items()}
    num_images = sum(counts.values())
    return tuple(
        Level(level, LEVELS[level], count, count / num_images if num_images else None)
        for level, count in counts.items()
    )


def _prevalence(attribute: Attribute, row: Mapping[str, Any] | None, affirmed: Collection[str]) -> Prevalence:
    """Without any scored image there is no row. affirmed: attributes that the engine never rules out."""
    counts = {name: row[name] if row else 0 for name in _COUNTS}
    share = row["share"] if row else None
    never_ruled_out = attribute.key in affirmed and counts["num_absent"] == 0 and counts["num_not_assessed"] > 0
    bound = bool(row and row["is_lower_bound"]) or never_ruled_out
    return Prevalence(attribute.key, attribute.title, attribute.level, **counts, share=share, is_lower_bound=bound)


def _unseen(run: Run) -> UnseenContent:
    counts = ",\n    ".join(f"count(*) FILTER (list_contains(kinds, '{kind}')) AS {kind}" for kind in UNSEEN_KINDS)
    row = run.ask("unseen", counts=counts)[0]
    return UnseenContent(row["num_images"], row["num_unknown"], {kind: row[kind] for kind in UNSEEN_KINDS})


_COUNTS = ("num_present", "num_ambiguous", "num_absent", "num_not_assessed")


def _rate(group: Mapping[str, Any]) -> Rate:
    figures = {field.name: group[field.name] for field in fields(Rate) if field.name != "group"}
    return Rate(printable(group["group_name"]), **figures)


def _private_meaning(private: str, private_sql: str) -> str:
    if private == PRIVATE:
        return "private: an attribute of level 1 or 2 is present (our choice; --private sets another condition)"
    warning = f"; it {ADVICE}" if matches_level_0_too(private_sql) else ""
    return f"private: {printable(private)} (set with --private){warning}"


def _engine(engine: Mapping[str, Any]) -> str:
    parts = [str(engine[part]) for part in ("name", "model", "protocol") if engine.get(part)]
    return printable(" · ".join(parts)) or "unknown"


def _assessed(engine: Mapping[str, Any], prevalence: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """What run.json says that the engine can judge; without it, what was judged at least once."""
    assessed = engine.get("assessed")
    if isinstance(assessed, list):
        return tuple(key for key in KEYS if key in assessed)
    return tuple(key for key in KEYS if prevalence.get(key, {}).get("share") is not None)
