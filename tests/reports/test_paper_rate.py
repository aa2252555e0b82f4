"""The privacy rate of the Places365 audit, as docs/recipes.md asks for it."""

import json
import re
from pathlib import Path

import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.tuning_sets.made import NOT_A_PICTURE, drawn, tree

RECIPES = Path(__file__).parents[2] / "docs" / "recipes.md"


@pytest.mark.slow
def test_the_rate_counts_all_pictures_of_a_category(tmp_path: Path, capsys: Capture) -> None:
    pictures = {f"{'abc'[n % 3]}/{n}.png": drawn(n) for n in range(24)} | {"a/broken.png": NOT_A_PICTURE}
    run = tmp_path / "run"
    scan_in_process(tree(tmp_path / "corpus", pictures), run)
    (statement,) = re.findall(r'privsieve sql RUN "(.*)"', RECIPES.read_text(encoding="utf-8"))
    # The canned engine gives levels, not one answer of yes or no.
    by_level = statement.replace("private = 1", "level IN (1, 2)")
    assert privsieve("sql", run, by_level, "--format", "json") == 0
    found = {row["category"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["n"] for name, row in found.items()} == {"a": 9, "b": 8, "c": 8}
    assert privsieve("sql", run, "SELECT category, num_private FROM rates", "--format", "json") == 0
    num_private = {row["category"]: row["num_private"] for row in json.loads(capsys.readouterr().out)}
    assert {name: round(row["rate"] * row["n"]) for name, row in found.items()} == num_private
    assert sum(num_private.values()) > 0
    rates = [row["rate"] for row in found.values()]
    assert rates == sorted(rates, reverse=True)
