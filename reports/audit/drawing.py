"""`audit sample`: draws pictures of a run for people to label.

It is a Poisson sample with unequal probabilities, for many subjects at once. One part of the labels is drawn evenly.
Each subject gets another part, drawn from each cell in proportion to the standard deviation of the unknown truth there
(Neyman's allocation), and to the images that it represents: a guarded image those that a screen left out. An image's
inclusion probability is the sum over all parts. No probability is 0, and no weight is more than 5 times that of an even
sample of the scored images. With sizes of categories, an image also counts as often as its category weighs.

Source: J. Neyman, "On the two different aspects of the representative method", 1934; Särndal, Swensson and Wretman,
"Model Assisted Survey Sampling", 1992, sections 3.5 and 12.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ingest import __version__
from ingest.errors import RunError, number_of
from reports.audit.cells import ALL, CATEGORY, AuditSql, audit_sql, counts_by
from reports.audit.population import category_weights
from reports.run.warehouse import Run
from reports.statistics.estimates import Labels, Numbers, evidence, guesses, masses_of, rates_of
from reports.words import NO_GROUP
from scoring.privacy import private_condition
from scoring.runs.audit_files import NUM_CELLS, PRIVATE, SAMPLE_SCHEMA, AuditDesign, AuditSample, Purpose
from scoring.sql.names import literal
from scoring.table import Col, numbers_of
from scoring.taxonomy import KEYS

EVEN_SHARE = 0.2
"""Part of the labels that is drawn evenly: a guard against guesses that are wrong."""

PRIVATE_SHARE: Mapping[Purpose, float] = {"both": 0.4, "private": 0.7, "attributes": 0.1}
"""Part of the labels that is drawn for the private decision; the rest is shared among the attributes."""


@dataclass(frozen=True)
class Expected:
    """What labels of a sample can show, guessed before there are any."""

    half_width: float | None
    """Half of the 95 % interval of the private rate of the scored images, 0–1, if every label is given and right."""

    num_private_even: float
    """Private pictures that are left for a promise (the guarantee of a policy, `screen fit`), which needs a sample
    of equal probabilities."""


def draw(
    run: Run, num_wanted: int, purpose: Purpose, seed: int, private: str | None, sizes: Mapping[str, int] | None = None
) -> tuple[AuditSample, Expected]:
    """Draw a Poisson sample of the scored images of a run; `num_wanted` is the expected size.

    private: SQL condition; None for that of the run's protocol. sizes: images of each category in the source, of which
    the run has as many of each. QueryError if it is not a condition over the rows, or the sizes are not those of the
    run's categories. RunError if no image has a score.
    """
    condition = private_condition(run.record.engine) if private is None else private
    sql = audit_sql(run, condition)
    if sizes is not None and sql.num_screened:
        raise RunError(f"--category-sizes: {run.url} cannot be weighted, since a screen left images out of it")
    names, counts = counts_by(run, sql, ALL if sizes is None else CATEGORY)
    num_images = {subject: of_groups.sum(axis=(0, 1)) for subject, of_groups in counts.items()}
    of_scored = num_images[PRIVATE] / masses_of(sql.guard_mass)
    num_scored = round(float(of_scored.sum()))
    if not num_scored:
        raise RunError(f"{run.url} has no scored images to draw from; scan first")
    weights = dict[str, float]()
    if sizes is not None:
        of_names = category_weights(run, sizes).of(names)
        of_names *= num_scored / float(of_names @ counts[PRIVATE].sum(axis=(1, 2)))
        weights = dict(zip(names, of_names.tolist(), strict=True))
        num_images = {subject: of_names @ of_groups.sum(axis=1) for subject, of_groups in counts.items()}
    of_cells = densities(num_images, purpose, sql.guard_mass)
    density = _density_sql(of_cells, num_images, weights)
    buckets = run.ask("audit_densities", density=density, scored=sql.scored, cells=sql.columns)
    histogram = np.array([[bucket["num_images"], bucket["total"]] for bucket in buckets], dtype=np.float64)
    scale = scale_of(num_wanted, num_scored, histogram)
    design = AuditDesign(
        num_wanted=num_wanted,
        seed=seed,
        purpose=purpose,
        private=condition,
        settings=run.record.settings_hash(),
        num_rows=run.checked.num_rows,
        rows_sha256=run.checked.rows_sha256,
        num_scored=num_scored,
        least_probability=min(1.0, scale * min(bucket["least"] for bucket in buckets)),
        category_sizes=sizes or {},
        guard_mass=sql.guard_mass,
        privsieve=__version__,
    )
    probability = "1.0::DOUBLE" if np.isinf(scale) else f"least(1.0, {scale!r}::DOUBLE * ({density}))"
    sample = _drawn(run, sql, probability, design)
    num_private = design.least_probability * float(guesses(num_images[PRIVATE]) @ of_scored)
    return sample, Expected(_half_width(sample, num_images[PRIVATE], weights, sql.guard_mass), num_private)


def drawn_alike(sample: AuditSample, run: Run, other: Run, private: str | None) -> AuditSample:
    """Return the same drawn pictures as rows of another run of the same corpus, so that one set of labels corrects
    both.

    private: as in `draw`. RunError if the other run has a scored image that `run` has not scored, and could not draw.
    """
    condition = private_condition(other.record.engine) if private is None else private
    sql = audit_sql(other, condition)
    mark = f'SELECT hash({Col.SHARD}, "{Col.INDEX}", {Col.SHA256}) AS mark FROM scored'
    chances = sample.table.select(["shard", "index", "inclusion_probability"])
    with other.joined(sampled=run.connection.sql(mark).to_arrow_table(), chances=chances):
        (found,) = other.ask("audit_outside")
        if found["num_outside"]:
            raise RunError(
                f"{other.url} has {number_of(found['num_outside'], 'scored image')} that {run.url} has not scored, so "
                "the sample is none of it; draw one of its own, or name the run with more scored images first"
            )
        design = sample.design.model_copy(
            update={
                "private": condition,
                "settings": other.record.settings_hash(),
                "num_rows": other.checked.num_rows,
                "rows_sha256": other.checked.rows_sha256,
                "num_scored": found["num_scored"],
                "guard_mass": sql.guard_mass,
            }
        )
        place = 'c.shard = celled.shard AND c."index" = celled."index"'
        chance = f"(SELECT inclusion_probability FROM chances c WHERE {place})"
        return _drawn(other, sql, chance, design)


def _drawn(run: Run, sql: AuditSql, probability: str, design: AuditDesign) -> AuditSample:
    """Return the rows whose number is below their probability, an SQL value."""
    rows = run.ask(
        "audit_draw",
        scored=sql.scored,
        private=sql.answers[PRIVATE],
        keys=", ".join(KEYS),
        cells=sql.columns,
        probability=probability,
        seed=str(design.seed),
    )
    named = [row | {"name": name} for row, name in zip(rows, _names(run, rows), strict=True)]
    sample = AuditSample(pa.Table.from_pylist(named, schema=SAMPLE_SCHEMA), design)
    # First the rows for a second look. Both groups stay in random order, so any first part is still a random sample.
    order = np.argsort([not is_second for is_second in sample.is_for_second_look], kind="stable")
    return AuditSample(sample.table.take(pa.array(order)), design)


def _half_width(
    sample: AuditSample, num_images: Numbers, weights: Mapping[str, float], guard_mass: float
) -> float | None:
    """Return half of the interval of the private rate if the guesses about the cells are right; None without a picture.
    num_images: in each cell, as the rates count them. weights: as in `_density_sql`. guard_mass: images that a guarded
    one represents."""
    guess, table = guesses(num_images), sample.table
    if not table.num_rows:
        return None
    cells = numbers_of(table, f"cell_{PRIVATE}").astype(np.int64)
    masses = np.array([weights.get(NO_GROUP if name is None else name, 1.0) for name in table["category"].to_pylist()])
    masses *= masses_of(guard_mass)[cells]
    chances = numbers_of(table, "inclusion_probability")
    rate = rates_of(evidence(num_images, Labels(cells, guess[cells], chances, masses), guard_mass)).prevalence
    return None if rate.low is None or rate.high is None else (rate.high - rate.low) / 2


def _density_sql(
    of_cells: Mapping[str, Numbers], num_images: Mapping[str, Numbers], weights: Mapping[str, float]
) -> str:
    """Return the SQL of a row's density over the columns `cell_…`; cells without images are left out. weights: category
    -> how often an image of it counts; once without any."""
    terms = list[str]()
    for subject, values in of_cells.items():
        whens = [f"WHEN {c} THEN {float(values[c])!r}::DOUBLE" for c in range(NUM_CELLS) if num_images[subject][c]]
        terms.append(f"CASE cell_{subject} {' '.join(whens)} END")
    whens = [f"WHEN {literal(name)} THEN {weight!r}::DOUBLE" for name, weight in weights.items()]
    weight = f"CASE coalesce(category, {literal(NO_GROUP)}) {' '.join(whens)} END" if whens else "1.0::DOUBLE"
    return f"{EVEN_SHARE}::DOUBLE + ({weight}) * ({' + '.join(terms)})"


def _names(run: Run, rows: list[dict[str, Any]]) -> list[str | None]:
    """Return the name that labels may use for each row instead of a hash; None if no name is unique."""
    keys = sorted({row["key"] for row in rows})
    listed = f"[{', '.join(map(literal, keys))}]::VARCHAR[]"
    shared = {row["key"]: row["num_images"] == row["num_shards"] for row in run.ask("audit_names", listed=listed)}

    def name(shard: str, key: str) -> str | None:
        if key not in shared:
            return key
        return f"{shard}/{key}" if shared[key] else None

    return [name(row["shard"], row["key"]) for row in rows]


def densities(num_images: Mapping[str, Numbers], purpose: Purpose, guard_mass: float = 1.0) -> dict[str, Numbers]:
    """Return the density of the sample in each cell: subject -> shape (NUM_CELLS,).

    An image's density is `EVEN_SHARE` plus the densities of its cells of all subjects; its mean over all images is 1.
    num_images: subject -> images in each cell. guard_mass: how many of these a guarded image represents.
    """
    of_private = PRIVATE_SHARE[purpose]
    shares = {PRIVATE: of_private, **dict.fromkeys(KEYS, (1 - EVEN_SHARE - of_private) / len(KEYS))}
    masses, densities_ = masses_of(guard_mass), {}
    for subject, counts in num_images.items():
        guess = guesses(counts)
        spread = np.sqrt(guess * (1 - guess)) * masses
        num_scored = (counts / masses).sum()
        densities_[subject] = shares[subject] * spread * num_scored / max(1e-300, float(counts @ (spread / masses)))
    return densities_


def scale_of(num_wanted: int, num_images: int, histogram: Numbers) -> float:
    """Return the factor that turns a density into a probability, so that `num_wanted` images are expected; infinity if
    every image is to be drawn.

    histogram: number of images and sum of densities of each bucket of similar densities, shape (B, 2).
    """
    if num_wanted >= num_images:
        return np.inf
    count, total = histogram.T
    from scipy.optimize import brentq

    def missing(scale: float) -> float:
        return num_wanted - float((count * np.minimum(1, scale * total / count)).sum())

    plain = num_wanted / num_images
    if missing(plain) <= 1e-9 * num_wanted:
        return plain
    return float(brentq(missing, plain, num_images / EVEN_SHARE, xtol=1e-15))
