"""`labels same-tags`: what people say of pictures that have the same tags, and the labels without such pictures."""

import re
from typing import Annotated, Literal
from zlib import crc32

import numpy as np
import pyarrow as pa

from jobs.console.requests import Option, Url, checked_request, refuse_existing
from jobs.runtime.progress import SILENT, Feedback
from jobs.screening.fitting import cache_of, encoders_of, labelled_pictures, modalities_of
from jobs.screening.request import LookRequest, SeenRequest
from reports.labels.same_tags import SameTags, left_out, same_tags, sets_of
from scoring.labels.picture_index import picture_names
from scoring.labels.table import LabelsOrigin, attribute_values, read_judged, write_labels
from scoring.privacy import private_of_labels
from scoring.screen.modalities import Features, Modality, PictureView
from scoring.screen.model import loaded_modalities
from scoring.screen.record import ModalityName
from scoring.table import numbers_of

TAGS: Literal["caption"] = "caption"
"""Modality in whose place the tags are found."""


@checked_request
class SameTagsRequest:
    look: LookRequest

    encoder: Annotated[Url | None, Option(metavar="FILE.onnx|FOLDER")] = None
    """Model by whose embedding the nearest pictures are found, as for screen fit. [default: the features that
    similarity uses]"""

    out: Url | None = None
    """Labels file to write: those of one picture of each set, and of all other pictures."""


class TagSet:
    """The words of a caption, whatever their order and case."""

    length = 2**32

    def features(self, picture: PictureView) -> Features | None:
        words = {crc32(word.encode()) for word in re.findall(r"\w+", (picture.view.caption or "").lower())}
        if not words:
            return None
        return Features(np.ones(len(words), np.float32), np.array(sorted(words), np.int64))


def run_same_tags(request: SameTagsRequest, feedback: Feedback = SILENT) -> SameTags:
    """Compare the labels. Errors are as in `run_screen_fit`; nothing is written then."""
    if request.out is not None:
        refuse_existing(request.out)
    sees = SeenRequest(modality=("frozen",))
    if request.encoder is not None:
        sees = SeenRequest(modality=("encoder",), encoder=(request.encoder,))
    encoders, names = encoders_of(sees), modalities_of(sees)
    modalities: dict[ModalityName, Modality] = {**loaded_modalities(names, encoders, cache_of(request.look, names))}
    found = labelled_pictures(request.look, {**modalities, TAGS: TagSet()}, feedback)
    pictures = found.pictures
    found_tags = (views[0][TAGS] for views in pictures.views)
    tags = [None if of is None or of.places is None else tuple(of.places.tolist()) for of in found_tags]
    labels = read_judged(request.look.labels).labels
    place_of = {name: place for place, name in enumerate(found.names)}
    private = private_of_labels(numbers_of(labels, "private"), attribute_values(labels))
    named = zip(labels["annotator"].to_pylist(), picture_names(labels).to_pylist(), private.tolist(), strict=True)
    answers = [(person or "", place_of[name], answer) for person, name, answer in named if name in place_of]
    vectors = np.stack([seen.values for views in pictures.views if (seen := views[0][names[0]]) is not None])
    result = same_tags(tags, pictures.sha256, pictures.private, answers, vectors)
    if request.out is not None:
        gone = {found.names[place] for place in left_out(sets_of(tags), pictures.sha256)}
        kept = labels.filter(pa.array([name not in gone for name in picture_names(labels).to_pylist()]))
        write_labels(
            kept, request.out, LabelsOrigin("labels same-tags", None, len(set(picture_names(kept).to_pylist())))
        )
    return result
