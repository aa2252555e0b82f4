"""`verify --rescan-engine`: what an engine finds in the pictures of a release. It is a finding, not a bound."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ingest.errors import number_of
from jobs.releases.record import ReleaseRecord
from jobs.runtime.progress import Feedback
from reports.report.opened import open_run
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from scoring.privacy import PRIVATE_LEVELS
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES


@dataclass(frozen=True)
class Rescan:
    """What an engine finds in the released pictures."""

    engine: str
    """Name and protocol."""

    levels: str
    """What of the taxonomy it looked for, in words."""

    private: tuple[str, ...]
    """SHARD/KEY of each picture in which an attribute of these levels is present."""

    num_doubtful: int
    """Other pictures with a cue to one."""

    num_pictures: int

    num_unjudged: int
    """Pictures without a score: they cannot be decoded, or the engine gave no answer."""

    num_attributes: int
    """Attributes of these levels."""

    num_assessed: int
    """Those of them that the engine judges."""

    cautions: tuple[str, ...] = ()

    def __str__(self) -> str:
        are = "is" if len(self.private) == 1 else "are"
        unjudged = f", {self.num_unjudged:,} could not be judged" if self.num_unjudged else ""
        pictures = number_of(self.num_pictures, "picture")
        text = (
            f"examined again by {self.engine}: of {pictures} {len(self.private):,} {are} private ({self.levels}), "
            f"{self.num_doubtful:,} doubtful{unjudged}. It judges {self.num_assessed} of the {self.num_attributes} "
            "attributes of these levels. This is what one engine finds, and no bound: what it misses is not counted; "
            "--labels gives a bound"
        )
        return ". ".join([text, *self.cautions])


def rescanned(
    url: str,
    engine: str,
    options: EngineOptions,
    release: ReleaseRecord,
    feedback: Feedback,
) -> Rescan:
    """Scan the pictures of a release in this process, and count what is found above the level that its policy allows:
    `residual_max_level`, else levels 1 and 2. The rows are not kept. Errors as in a scan.
    """
    from jobs.scanning.request import ScanRequest, ScanResources, Supervision
    from jobs.scanning.run import run_scan

    described = engine_module(engine).describe(options)
    limit = max(PRIVATE_LEVELS) + 1 if release.residual_max_level is None else release.residual_max_level
    levels = sorted({a.level for a in ATTRIBUTES if not limit or a.level < limit})
    keys = [a.key for a in ATTRIBUTES if a.level in levels]
    private, num_doubtful, num_unjudged, num_pictures = list[str](), 0, 0, 0
    with TemporaryDirectory(prefix="privsieve-rescan-") as folder:
        run = str(Path(folder, "run"))
        resources = ScanResources(executor="inline")
        run_scan(ScanRequest(url, run, engine=engine, options=options), resources, Supervision(), feedback)
        with open_run(run) as opened:
            for rows in opened.chunks([Col.SHARD, Col.KEY, Col.STATUS, *keys]):
                values = np.array([rows[key].fill_null(0).to_numpy() for key in keys], np.float32)
                highest = values.max(axis=0, initial=0)
                is_scored = np.array(rows[Col.STATUS].to_pylist(), dtype=object) == "scored"
                found = rows.filter((is_scored & (highest == 1)).astype(bool)).select([Col.SHARD, Col.KEY]).to_pylist()
                private += [f"{row[Col.SHARD]}/{row[Col.KEY]}" for row in found]
                num_doubtful += int((is_scored & (highest > 0) & (highest < 1)).sum())
                num_unjudged += int((~is_scored).sum())
                num_pictures += rows.num_rows
    cautions = ["Its answers are made up"] if described.is_fake else []
    if (release.engine.name, release.engine.protocol) == (described.name, described.protocol):
        cautions.append("It is the engine that the policy decided by, which repeats its own errors: take another")
    return Rescan(
        f"{engine} ({described.protocol})",
        f"level {' or '.join(map(str, levels))}",
        tuple(private),
        num_doubtful,
        num_pictures,
        num_unjudged,
        len(keys),
        len({*keys} & {*described.assessed}),
        tuple(cautions),
    )
