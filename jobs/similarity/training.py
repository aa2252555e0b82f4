"""`similarity train`: folders of labelled versions -> a file with an encoder."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError, LabelsError
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.machine import install_command
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.runtime.progress import SILENT, Feedback
from jobs.similarity.comparing import MAX_SIDE_PX, Corpus
from jobs.similarity.request import SimilarityTrainRequest
from scoring.similarity.encoders import FROZEN_SHA256, EncoderCard, frozen_encoder
from scoring.similarity.triplets import LabelledOriginal, Triplets, labelled_versions


@dataclass(frozen=True)
class TrainedSimilarity:
    card: EncoderCard
    num_held_back: int
    num_unused: int
    """Files that belong to no triplet, or cannot be decoded."""


def run_train(request: SimilarityTrainRequest, feedback: Feedback = SILENT) -> TrainedSimilarity:
    """Train an encoder and write it, whole or not at all.

    LabelsError if the folders hold no triplet, SourceError or StorageError if they cannot be read, EngineError if a
    package is missing, IncompleteError if the loss is no number.
    """
    out = str(request.out)
    refuse_existing(out)
    try:
        from safetensors.numpy import save

        from scoring.similarity import networks
    except ImportError as error:
        raise EngineError(f"similarity train needs the package {error.name}: {install_command('tune')}") from None
    is_head = request.network == "head"
    frozen = frozen_encoder() if is_head else None
    side_px = 0 if is_head else request.side_px
    input_of = frozen.of if frozen else lambda pixels: networks.square(pixels, side_px)
    inputs, limits = list[npt.NDArray[Any]](), ImageLimits(max_side_px=MAX_SIDE_PX, max_frames=1)
    originals, num_unused = list[list[Triplets]](), 0
    for url in request.folders:
        corpus = Corpus(url)
        places = {each.path: each for each in corpus.places}
        labelled, num_others = labelled_versions(places)
        num_unused += num_others
        wanted = dict.fromkeys(
            path for each in labelled for path in (each.original, *each.recognised, *each.unrecognised)
        )
        with feedback.meter("read", len(wanted)) as meter:
            numbers = dict[str, int]()
            for path in wanted:
                image = decode(corpus.read(places[path]).encoded, limits)
                if isinstance(image, DecodedImage):
                    numbers[path] = len(inputs)
                    inputs.append(input_of(image.views[0]))
                meter.advance(1)
        num_unused += len(wanted) - len(numbers)
        originals += filter(None, (_triplets(each, numbers) for each in labelled))
    if not originals:
        raise LabelsError("no original of which both kinds of versions can be decoded")
    held_back, kept = _split(originals, request.held_back, request.seed)
    triplets, others = list(chain(*kept)), list(chain(*held_back))
    how = networks.TripletTraining(
        request.network, request.margin, request.learning_rate, request.batch_size, request.epochs, request.seed
    )
    with feedback.meter("train", request.epochs * len(triplets)) as meter:
        result = networks.train(how, np.stack(inputs), triplets, others, lambda epoch: meter.advance(len(triplets)))
    card = EncoderCard(
        **vars(how),
        side_px=side_px,
        num_dimensions=result.num_dimensions,
        num_originals=len(kept),
        num_triplets=len(triplets),
        features_sha256=FROZEN_SHA256 if is_head else "",
        in_order=result.in_order,
        in_order_held_back=result.in_order_held_back,
    )
    place(out).write(save(result.tensors, card.as_metadata()))
    return TrainedSimilarity(card, len(held_back), num_unused)


def _triplets(original: LabelledOriginal, numbers: dict[str, int]) -> list[Triplets]:
    """Return a triplet per recognised version; none if the original or all versions of a kind cannot be decoded.

    numbers: of the pictures that can be decoded, by path.
    """
    unrecognised = tuple(numbers[path] for path in original.unrecognised if path in numbers)
    if original.original not in numbers or not unrecognised:
        return []
    of_original = numbers[original.original]
    return [Triplets(of_original, numbers[path], unrecognised) for path in original.recognised if path in numbers]


def _split(
    originals: list[list[Triplets]], share: float, seed: int
) -> tuple[list[list[Triplets]], list[list[Triplets]]]:
    """Return the originals held back, and those trained on: at least one."""
    order = np.random.default_rng(seed).permutation(len(originals))
    num = min(len(originals) - 1, round(share * len(originals)))
    return [originals[n] for n in sorted(order[:num])], [originals[n] for n in sorted(order[num:])]
