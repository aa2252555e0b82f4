"""What the model should answer about each picture, by its label or by a conversation that the user supplies."""

from dataclasses import dataclass, field

from ingest.errors import LabelsError
from ingest.sample import Sample
from scoring.labels.picture_index import PictureIndex
from scoring.protocols.interface import Protocol
from scoring.tuning.dialogues import dialogues
from scoring.tuning.targets import Label, Target, Turns, is_private, target_of


@dataclass(frozen=True)
class Targets:
    """Targets of one kind."""

    asked: Protocol
    keep_ambiguous: bool
    names: PictureIndex | None = None
    """Names of conversations; None if the label alone gives the target."""

    turns: list[Turns] = field(default_factory=list)
    """By row of `names`."""

    _distinct: dict[Target, Target] = field(default_factory=dict)
    """Many pictures have equal targets: each is kept once."""

    @property
    def num_unused(self) -> int:
        """Conversations of which no labelled picture was found so far."""
        return 0 if self.names is None else len(self.turns) - len(self.names.used)

    def of(self, label: Label, sample: Sample, sha256: str) -> Target | None:
        """None if the label leaves the answer open, or the picture has no conversation."""
        if self.names is None:
            target = target_of(label, self.asked, keep_ambiguous=self.keep_ambiguous)
            return None if target is None else self._distinct.setdefault(target, target)
        row = None if is_private(label) is None else self.names.row_of(sample.shard, sample.key, sha256)
        return None if row is None else Target(turns=self.turns[row])


def targets_of(kind: str, asked: Protocol, keep_ambiguous: bool, url: str | None) -> Targets:
    """url: of the conversations. LabelsError if a line is wrong, or a picture has two conversations."""
    if kind != "dialogue" or url is None:
        return Targets(asked, keep_ambiguous)
    names = PictureIndex(url)
    turns: list[Turns] = []
    for number, sha256, key, conversation in dialogues(url):
        if not names.add(len(turns), sha256, key):
            raise LabelsError(f"{url}, line {number}: the picture has a conversation already; keep one")
        turns.append(conversation)
    if not turns:
        raise LabelsError(f"{url}: holds no conversation")
    return Targets(asked, keep_ambiguous, names, turns)
