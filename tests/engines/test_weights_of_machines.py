"""All machines of a run have the same weights, also where they are in folders of the machines themselves."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines.vlm.settings import settings
from tests.weights.served import BASE


def test_a_folder_with_other_weights_than_the_run_is_refused(tmp_path: Path) -> None:
    """A machine of a cluster may have a folder of the same name with other files."""
    for name in ("there", "here"):
        shutil.copytree(BASE, tmp_path / name / "base")
    there, here = (
        EngineOptions(model=str(tmp_path / name / "base"), protocol="binary:ours-1") for name in ("there", "here")
    )
    expected = frozenset([settings(there, with_weights=True).checkpoint.digest()])
    settings(replace(here, weights_sha256=expected), with_weights=True)
    config = json.loads((BASE / "generation_config.json").read_bytes()) | {"temperature": 0.5}
    (tmp_path / "here" / "base" / "generation_config.json").write_text(json.dumps(config))
    with pytest.raises(
        EngineError, match=r'^"base" has other files on this machine than where the engine was described'
    ):
        settings(replace(here, weights_sha256=expected), with_weights=True)
