"""What is stored with the weights of a trained encoder."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

Network = Literal["head", "resnet18", "resnet50"]
"""`head` is one linear layer over the frozen features; the others are whole networks over pixels."""

FOOTER_KEY = "privsieve"
"""Name of the JSON in the metadata of the file."""


@dataclass(frozen=True)
class EncoderCard:
    """What is stored in the file of a trained encoder."""

    network: Network
    side_px: int
    """Side of the square to which a whole network resizes pictures; 0 of a head."""

    num_dimensions: int
    num_originals: int
    num_triplets: int
    """Pictures that people recognised, each of which made a triplet in every epoch."""

    margin: float
    learning_rate: float
    batch_size: int
    epochs: int
    seed: int
    features_sha256: str
    """Hash of the frozen model below a head; empty for others."""

    in_order: float
    """Share of training triplets whose recognised version is nearer than the unrecognised one."""

    in_order_held_back: float | None
    """The same for originals that were held back; None if none were."""

    def as_metadata(self) -> dict[str, str]:
        return {FOOTER_KEY: json.dumps(asdict(self))}
