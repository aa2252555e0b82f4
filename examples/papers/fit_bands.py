"""Fit the bands of the severity score for a taxonomy of your own on labels (privsieve help taxonomy).

    python examples/papers/fit_bands.py LABELS mine.yaml fitted.yaml [--seed N]

LABELS: Parquet or CSV, one row a picture, with a column of 0, 0.5 or 1 for each attribute. mine.yaml: written like
`scoring/taxonomy.yaml`. Pictures with the same attributes are one combination. A linear map takes combinations to 16
dimensions, in which those with the same most severe level are near (ordinal triplet loss, AdamW). The severity of a
combination is the mean of the levels' severities over all others, weighted by 1/(squared distance + ε); the 5th
percentile of a level is the lower edge of its band.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", appendix A.1 and A.2. The paper leaves open what is chosen
here: level m of n has the severity (n − m)/(n − 1); a combination is not its own neighbour; ε is the median squared
distance to the nearest other one; learning rate 0.001, batches of 256, at least 800 steps. The published bands do not
follow from this.
"""

import argparse
import math
import sys
from pathlib import Path

import duckdb
import numpy as np
import yaml

from ingest.errors import PrivsieveError
from scoring.runs.audit_files import SAMPLE_SCHEMA
from scoring.table import SCHEMA
from scoring.taxonomy import KEYS, Taxonomy, fitted_version, given_taxonomy

NUM_DIMENSIONS, NUM_EPOCHS, MIN_STEPS, BATCH, LEARNING_RATE, DECAY = 16, 30, 800, 256, 1e-3, 1e-2
MARGIN, MARGIN_PER_LEVEL, PERCENTILE, NUM_BOOTSTRAPS = 0.10, 0.12, 5.0, 20
MIN_COMBINATIONS, MIN_NEAREST, MAX_WIDTH_SHARE, COLLAPSED = 4, 0.95, 0.25, 0.005
COMPUTED = {"group_name", "is_private", "is_quarantined", "is_screened", "num_images"}
"""Columns that the queries of reports compute from rows."""


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def embedding(
    vectors: np.ndarray, levels: np.ndarray, pictures: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return the map, shape (attributes, 16). pictures: the combination of each; levels: of each combination."""
    weights = generator.normal(size=(vectors.shape[1], NUM_DIMENSIONS)) / np.sqrt(vectors.shape[1])
    mean, square, step = np.zeros_like(weights), np.zeros_like(weights), 0
    num_epochs = max(NUM_EPOCHS, math.ceil(MIN_STEPS / math.ceil(len(pictures) / BATCH)))
    for _ in range(num_epochs):
        order = generator.permutation(pictures)
        for first in range(0, len(order), BATCH):
            anchors = order[first : first + BATCH]
            positives, negatives = np.empty_like(anchors), np.empty_like(anchors)
            for level in np.unique(levels[pictures]):
                members, same = levels[anchors] == level, levels[pictures] == level
                positives[members] = generator.choice(pictures[same], members.sum())
                negatives[members] = generator.choice(pictures[~same], members.sum())
            margins = MARGIN + MARGIN_PER_LEVEL * np.abs(levels[anchors] - levels[negatives])
            a, p, n = (unit(vectors[each] @ weights) for each in (anchors, positives, negatives))
            losses = np.maximum(0, (a * n).sum(axis=1) - (a * p).sum(axis=1) + margins)
            counts, slopes = (losses > 0)[:, None] / len(losses), np.zeros_like(weights)
            for each, direction, slope in ((anchors, a, n - p), (positives, p, -a), (negatives, n, a)):
                lengths = np.linalg.norm(vectors[each] @ weights, axis=1, keepdims=True)
                tangent = slope - direction * (direction * slope).sum(axis=1, keepdims=True)
                slopes += vectors[each].T @ (counts * tangent / lengths)
            step += 1
            mean, square = 0.9 * mean + 0.1 * slopes, 0.999 * square + 0.001 * slopes**2
            moved = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
            weights = weights * (1 - LEARNING_RATE * DECAY) - LEARNING_RATE * moved
    return weights


def edges(
    combinations: np.ndarray, levels: np.ndarray, pictures: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, float, float]:
    """Return the lower edges of levels 1–3, ε, and the share of pictures nearest to the centre of their own level."""
    there, pictures, counts = np.unique(pictures, return_inverse=True, return_counts=True)
    vectors, known = combinations[there].astype(float), levels[there]
    embedded = unit(vectors @ embedding(vectors, known, pictures, generator))
    distances = np.maximum(0, 2 - 2 * embedded @ embedded.T)  # of unit vectors
    np.fill_diagonal(distances, np.inf)
    epsilon = float(np.median(distances.min(axis=1)))
    near = counts / (distances + max(epsilon, 1e-12))
    severities = near @ ((4 - known) / 3) / near.sum(axis=1)
    names = np.unique(known)
    centres = np.stack([np.average(embedded[known == name], axis=0, weights=counts[known == name]) for name in names])
    nearest = names[((centres**2).sum(axis=1) - 2 * embedded @ centres.T).argmin(axis=1)]
    lower = [np.repeat(severities[known == level], counts[known == level]) for level in (1, 2, 3)]
    found = np.array([np.percentile(values, PERCENTILE) if len(values) else np.nan for values in lower])
    return found, epsilon, float(np.average(nearest == known, weights=counts))


def fitted_edges(values: np.ndarray, taxonomy: Taxonomy, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the lower edges of levels 1–3, their deviations over draws of the pictures, and ε.

    values: shape (n, attributes), 0, 0.5, 1 or NaN; 0.5 counts as 0, as in the paper's labels. ValueError if they give
    no stable bands.
    """
    present = values[~np.isnan(values).any(axis=1)] == 1
    combinations, pictures = np.unique(present[present.any(axis=1)], axis=0, return_inverse=True)
    level_of = np.array([attribute.level for attribute in taxonomy.attributes.values()])
    levels = np.where(combinations, level_of, 9).min(axis=1)
    for level in (1, 2, 3, 4):
        if (num := int((levels == level).sum())) < MIN_COMBINATIONS:
            raise ValueError(f"level {level} has {num} combinations of attributes, and bands need {MIN_COMBINATIONS}")
    generator, pictures = np.random.default_rng(seed), pictures.reshape(-1)
    found, epsilon, nearest = edges(combinations, levels, pictures, generator)
    if nearest < MIN_NEAREST:
        raise ValueError(f"only {nearest:.0%} of the pictures are nearest to the centre of their own level")
    draws = (generator.choice(pictures, len(pictures)) for _ in range(NUM_BOOTSTRAPS))
    deviations = np.std([edges(combinations, levels, draw, generator)[0] for draw in draws], axis=0, ddof=1)
    refuse_unsound(found, deviations)
    return found, deviations, epsilon


def refuse_unsound(found: np.ndarray, deviations: np.ndarray) -> None:
    """Raise ValueError if the bands do not fall, follow from no data, or move from draw to draw."""
    widths, shown = -np.diff([1.0, *found, 0.0]), ", ".join(f"{edge:.3f}" for edge in found)
    if (widths <= 0).any():
        raise ValueError(f"the lower edges of the bands do not fall from level to level ({shown}); label more pictures")
    if (np.abs(found - [1, 2 / 3, 1 / 3]) < COLLAPSED).all():
        raise ValueError(f"the lower edges of the bands ({shown}) are the severities of the levels themselves")
    stable = deviations <= MAX_WIDTH_SHARE * np.minimum(widths[:-1], widths[1:])  # false for NaN
    if not stable.all():
        raise ValueError(f"the lower edge of level {stable.argmin() + 1} moves from draw to draw; label more pictures")


def write_fitted(labels: str, mine: str, out: Path, seed: int) -> None:
    taxonomy = given_taxonomy(mine)
    words = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    columns = {*SCHEMA.names, *SAMPLE_SCHEMA.names, *COMPUTED} - set(KEYS)
    if wrong := set(taxonomy.attributes) & (columns | {word for (word,) in duckdb.execute(words).fetchall()}):
        raise ValueError(f'{mine}: "{min(wrong)}" is another column of a row or a word of SQL; rename the attribute')
    chosen = ", ".join(f"CAST({key} AS DOUBLE)" for key in taxonomy.attributes)
    reader = "read_parquet" if labels.endswith(".parquet") else "read_csv"
    rows = duckdb.execute(f"SELECT {chosen} FROM {reader}(?)", [labels]).fetchall()
    values = np.array(rows, dtype=float)
    if not np.isin(values[~np.isnan(values)], (0, 0.5, 1)).all():
        raise ValueError(f"{labels}: an attribute is something else than 0, 0.5 and 1")
    found, deviations, epsilon = fitted_edges(values, taxonomy, seed)
    content = yaml.safe_load(Path(mine).read_text())
    for level, (upper, lower) in enumerate(zip([1.0, *found], [*found, 0.0], strict=True), 1):
        content["levels"][level]["score"] = [round(float(lower), 3), round(float(upper), 3)]
        print(f"level {level}: weight {taxonomy.weights[level - 1]}, band {lower:.3f} to {upper:.3f}")
    content["version"] = fitted_version(content, taxonomy.version)
    out.write_text(f"# ε {epsilon:.6f}, seed {seed}\n" + yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    print(
        f"deviations of the lower edges: {', '.join(f'{each:.3f}' for each in deviations)}; {content['version']}: {out}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels")
    parser.add_argument("mine")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another file, or remove it")
    try:
        write_fitted(**vars(asked))
    except (PrivsieveError, ValueError, duckdb.Error, OSError) as error:
        sys.exit(str(error).splitlines()[0])


if __name__ == "__main__":
    main()
