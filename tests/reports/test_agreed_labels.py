"""What several people say of a picture together, and what they leave undecided."""

from collections.abc import Sequence

import numpy as np

from reports.labels.agreed import AgreedLabels, agreed, num_undecided_of
from scoring.labels.table import JudgedLabels, to_labels
from scoring.privacy import BY_LEVEL
from scoring.taxonomy import ATTRIBUTES, KEYS

DECISIVE = [a.key for a in ATTRIBUTES if a.level in (1, 2)]


Row = tuple[int, str, dict[str, float]]
"""Number of the picture, who, and the values."""


def answered(
    rows: Sequence[Row], unclear: Sequence[int] = (), complete: Sequence[int] = (), condition: str = BY_LEVEL
) -> AgreedLabels:
    """unclear: rows of people who could not say. complete: rows of people who were asked for every attribute."""
    names = sorted({name for *_, values in rows for name in values})
    columns: dict[str, list[object]] = {name: [values.get(name) for *_, values in rows] for name in names}
    columns |= {"sha256": [f"{number:064x}" for number, *_ in rows], "annotator": [who for _, who, _ in rows]}
    is_unclear, is_complete = (np.isin(np.arange(len(rows)), chosen) for chosen in (unclear, complete))
    return agreed(
        JudgedLabels(to_labels(columns, len(rows)), is_unclear, is_complete, np.zeros(len(rows), np.bool_)), condition
    )


def test_an_attribute_that_a_person_cannot_say_is_undecided_and_what_hangs_on_it() -> None:
    nothing = dict.fromkeys(KEYS, 0.0)
    some = {key: value for key, value in nothing.items() if key != "biometrics"}
    found = answered([(1, "a", some), (2, "a", nothing), (3, "a", some | {"gov_ids": 1.0})], complete=[0, 1, 2])
    assert found.undecided[:, 0].tolist() == [True, False, False]
    assert num_undecided_of(found.undecided) == {"private": 1, "biometrics": 2}
    assert found.undecided[:, 1 + KEYS.index("biometrics")].tolist() == [True, False, True]


def test_the_majority_of_an_odd_number_decides_and_two_that_differ_do_not() -> None:
    rows: list[Row] = [(1, "a", {"private": 1}), (1, "b", {"private": 0}), (1, "c", {"private": 1})]
    rows += [(2, "a", {"private": 1}), (2, "b", {"private": 0}), (3, "a", {"private": 0}), (3, "b", {"private": 0})]
    found = answered([*rows, (4, "a", {"private": 1})])
    assert found.labels["private"].to_pylist() == [1, None, 0, 1]
    assert found.undecided[:, 0].tolist() == [False, True, False, False]
    assert found.labels["annotator"].to_pylist() == ["a, b, c", "a, b", "a, b", "a"]
    assert num_undecided_of(found.undecided) == {"private": 1}


def test_a_person_who_cannot_say_leaves_it_to_the_others_and_a_row_that_is_empty_is_not_judged() -> None:
    rows: list[Row] = [(1, "a", {}), (1, "b", {"private": 1}), (2, "a", {}), (3, "a", {}), (4, "a", {"private": 0})]
    found = answered(rows, unclear=[0, 2])
    assert found.labels["private"].to_pylist() == [1, None, None, 0]
    assert found.undecided[:, 0].tolist() == [False, True, False, False]
    assert not found.undecided[:, 1:].any()  # nobody was asked for attributes


def test_who_sees_an_attribute_of_level_1_differs_from_who_calls_the_picture_public() -> None:
    nothing = dict.fromkeys(DECISIVE, 0.0)
    rows: list[Row] = [(1, "a", nothing | {"biometrics": 1.0}), (1, "b", {"private": 0})]
    rows += [(2, "a", nothing | {"biometrics": 0.5}), (2, "b", {"private": 0})]
    rows += [(3, "a", nothing | {"biometrics": 1.0}), (3, "b", nothing)]
    found = answered(rows)
    assert found.undecided[:, 0].tolist() == [True, False, True]
    assert found.labels["private"].to_pylist() == [None, 0, None]
    biometrics = found.undecided[:, 1 + KEYS.index("biometrics")]
    assert biometrics.tolist() == [False, False, True]
    column = answered(rows[:2], condition="gov_ids = 1")
    assert (column.labels["private"].to_pylist(), column.undecided[:, 0].tolist()) == ([0], [False])


def test_what_a_file_of_labels_consensus_leaves_open_is_undecided() -> None:
    nothing = dict.fromkeys(DECISIVE, 0.0)
    rows: list[Row] = [(1, "consensus", {"private": 1}), (2, "consensus", {})]
    rows += [(3, "consensus", nothing | {"biometrics": 0.5})]
    rows += [(4, "consensus", nothing | {"biometrics": 0.5, "gov_ids": 1.0}), (5, "a", nothing | {"biometrics": 0.5})]
    found = answered(rows)
    assert found.undecided[:, 0].tolist() == [False, True, True, False, False]
    assert num_undecided_of(found.undecided) == {"private": 2, "biometrics": 2}
