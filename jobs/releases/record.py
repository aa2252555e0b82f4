"""What `release.json` says: one model for whoever writes, checks, changes or shows it."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf, computed_field

from ingest.formats import FORMATS
from ingest.formats.members import Members, name_fault
from ingest.formats.origins import Origins
from ingest.formats.released import own_names_among
from ingest.storage.file_format import FORMAT, Format
from scoring.policies.policy import ACTIONS, Action, Files, Texts


def _shown(text: str) -> str:
    text.encode()  # a surrogate is a ValueError
    return text


Text = Annotated[str, AfterValidator(_shown)]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

ReleasedName = InstanceOf[str]
"""Name of a file of a release. One that is not UTF-8 has surrogates, which pydantic refuses in text and in its JSON, so
models with such names are read and written by `json`."""


def _within(name: str) -> str:
    if name_fault(name) is not None:
        raise ValueError("leads out of the release")
    return name


FileName = Annotated[ReleasedName, AfterValidator(_within)]
"""Path below a release. It is checked, since the files of a release are not trusted."""


def _not_own(hashes: dict[str, str]) -> dict[str, str]:
    if own_names_among(hashes):
        raise ValueError("a shard has the name of one of the release's own files")
    return hashes


ActionCounts = Annotated[dict[Action, Count], Field(min_length=len(ACTIONS))]
"""One number for each action."""


class _Facts(BaseModel):
    """Nothing is converted on reading, and no field may be missing or unknown."""

    # Built where it is first used: most processes that copy use none of these.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


class GuaranteeRecord(_Facts):
    """What `guarantee` of the policy promised, and what proves it."""

    model_config = ConfigDict(extra="ignore")  # 1.0 wrote more numbers

    recall: float
    """At least this share of the private pictures of the run is dropped, …"""

    confidence: float
    """… with this probability, over the choice of the pictures that were labelled."""

    by: Text
    """The column or expression that has the threshold."""

    threshold: float | None
    """Images from it on are dropped; None if the policy alone drops enough."""

    num_private_labelled: Count
    """Labelled private pictures that the proof uses, each equally likely to have been drawn."""

    num_missed: Count
    """How many of these the release keeps."""

    num_missed_allowed: Count
    """How many it might keep, by the exact binomial bound."""

    failure_probability: float
    """Upper bound of the probability that the promise is broken, over draws of labels; at most 1 − confidence."""

    drawn: Literal["audit", "evenly"]
    """How the labelled pictures were drawn."""

    num_private_drawn: Count
    """Labelled private pictures before those of an audit were thinned to equal probabilities; copies count once."""

    num_undecided: Count
    """Labelled pictures that may be private or not, since people differ or cannot say (of an audit after thinning)."""

    num_undecided_as_private: Count
    """How many of `num_private_labelled` are undecided and count as private: as many as give the lowest threshold."""

    labels_sha256: Sha256
    """Hash of the file of labels; of a folder, of the lines that `sha256sum *` prints in it."""

    assumption: Text
    """What must be true for the promise to hold."""

    promise: Text
    """The promise in words."""


GroupsBy = Literal["phash"]
"""Column of the row by which near duplicates are found."""


class GroupCounts(_Facts):
    """Groups of near duplicates, by `groups` of the policy."""

    by: GroupsBy | Literal["pdq"]  # 1.0 had both
    num_groups: Count
    """Groups of two pictures or more."""

    num_pictures: Count
    """Pictures in these."""

    num_overruled: Count
    """Pictures that got a stricter decision than their own."""


class UrlCounts(_Facts):
    """What became of the rows of the table of --urls."""

    model_config = ConfigDict(extra="ignore")  # `num_released` is computed

    column: Text
    """Column of the URLs."""

    num_listed: Count
    """All rows: the sum of the following numbers."""

    actions: ActionCounts
    """Action of the policy -> rows."""

    num_failed: Count
    """Rows whose column `status` says that the picture could not be downloaded, and whose URL the run does not know."""

    num_not_scanned: Count
    """Other rows with a URL that the run does not know."""

    num_without_url: Count

    num_taken_down: Count = 0
    """Rows that takedowns have removed since."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def num_released(self) -> int:
        """Return the number of rows of the list."""
        return sum(self.held.values()) - self.num_taken_down

    @property
    def held(self) -> dict[Action, int]:
        """Return action -> rows of the list before takedowns."""
        return {action: number for action, number in self.actions.items() if action != "drop"}


class DamagedShards(_Facts):
    """Shards of the source of which an unknown number of images was not seen."""

    num_shards: Count
    parts: dict[Text, Count]
    """Reason -> damaged parts."""


class ChangeCounts(_Facts):
    """How many pictures differ from the previous release."""

    num_added: Count
    num_removed: Count
    num_changed: Count
    """Same shard and key, other bytes."""


class EngineFacts(_Facts):
    """The engine that the policy decided by."""

    name: Text
    protocol: Text
    assessed: list[Text]
    """Keys of the attributes that it judges."""

    only_affirmed: list[Text]
    """Those of them of which it can only say that they are there."""


class Takedown(_Facts):
    on: Text
    """Day, such as 2026-11-24."""

    num_pictures: Count
    num_rows: Count = 0
    """Rows of a list of URLs."""


class ReleaseIdentity(_Facts):
    """What --resume must find unchanged: all of `release.unfinished.json`, and the beginning of `release.json`."""

    format: Format = FORMAT
    privsieve: Text
    sample: Count | None
    limit: Count | None
    run_sha256: Sha256
    policy: Text
    policy_sha256: Sha256
    kept_sha256: Sha256
    members: Members
    files: Files
    texts: Texts

    origins: Origins | None
    """Whether texts lead to the originals of cleaned and covered pictures; None if no picture is written again."""

    second_look: Text | None
    """Protocol of the engine that examined covered pictures; None without a rule that covers something."""

    verified_by: Text | None
    """Name and protocol of the other engine that examined covered pictures, by `verify` of the policy."""

    residual_max_level: Count | None
    """Most severe level that the second look might find in a covered picture; None: only what rules cover is gone."""

    previous_sha256: Sha256 | None
    """Hash of `release.json` of the release before, by --previous."""

    boxes_sha256: Sha256 | None
    """Hash of the boxes that people changed or added; None if none were given."""

    guarantee: GuaranteeRecord | None

    groups: GroupCounts | None
    """Groups that share a decision; None if each picture has its own."""

    urls: UrlCounts | None
    """Counts of the list of URLs; None for a release of pictures."""


class ReleaseRecord(ReleaseIdentity):
    """All of `release.json`. It names no path of the source, and nothing of a picture that is not released."""

    scope: Text
    """Which images of the source the decisions are of."""

    damaged_shards: DamagedShards

    made_up: Text | None
    """Why no answer of the engine may be believed; None for a real engine."""

    num_images: Count
    """Images of the run."""

    actions: ActionCounts
    rules: dict[Text, dict[Action, Count]]
    """Rule -> action -> images."""

    num_unseen_kept: Count
    """Released images that hold content that may not have been scanned."""

    unseen_kept: dict[Text, Count]
    """Kind of this content -> images."""

    num_unseen_removed: Count
    """Released images that lost such content."""

    members_left_out: dict[ReleasedName, Count]
    """Kind of file or column that was next to the images and not copied -> how many."""

    num_without_origin: Count
    """Pictures written again whose texts lost what leads to the original."""

    num_texts_masked: Count

    changes: ChangeCounts | None
    """Since the release before, by --previous."""

    num_removed_before: Count
    """First rows of `removed.parquet`: taken down from releases before this one."""

    source_format: Annotated[str, Field(pattern=f"^({'|'.join(FORMATS)})$")]
    """Layout of the source, one of `ingest.formats.FORMATS`."""

    image_columns: list[str]
    """Columns of tables that were scanned; empty for all that hold images."""

    engine: EngineFacts
    takedowns: list[Takedown]

    sha256: Annotated[dict[FileName, Sha256], AfterValidator(_not_own)]
    """Each shard, or file of the list of URLs -> its hash."""

    own_sha256: dict[FileName, Sha256]
    """Each of `ingest.formats.released.HASHED` that the release has -> its hash."""

    @property
    def file_format(self) -> str:
        """Return the format of the files of the release."""
        return self.source_format if self.urls is None else "parquet"

    @property
    def hashes(self) -> dict[str, str]:
        """Return each file with a hash here -> its hash."""
        return self.sha256 | self.own_sha256

    @property
    def num_released(self) -> int:
        """Return the number of pictures that the policy releases, less those that were taken down."""
        return sum(self.actions.values()) - self.actions["drop"]

    def changed(self, **fields: Any) -> "ReleaseRecord":
        """Return the record with other values."""
        return ReleaseRecord.model_validate(self.model_dump() | fields)
