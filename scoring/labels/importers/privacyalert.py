"""PrivacyAlert as released: `Dataset_split/SPLIT_with_labels_2classes.csv` and `Images/SPLIT/PHOTOID_SECRET_SIZE.jpg`.

Layout as read by laurenssam/Privacy-Aware-Visual-Language-Models: column 0 is the Flickr photo id, column 1 private or
public; a line of column names may be there. Many pictures are gone from Flickr since.
Lists with four classes are called SPLIT_with_labels_4classes.csv here: that name is a guess from the other one.
"""

from collections.abc import Iterator

from ingest.errors import LabelsError
from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, has_picture_name, inside
from scoring.labels.source_files import csv_rows, names_in
from scoring.labels.votes import PRIVATE_VOTES, vote_of

MAPPING: str | None = None
LICENCE: str | None = None
NOTES: tuple[str, ...] = (
    "Pictures that are not there have their Flickr photo id as key.",
    "A quarter of the data set is private by design, so its private share is no rate of any population.",
)

SPLITS = {"train": "train", "val": "validation", "test": "test"}
VALUES = {"public": 0, "private": 1}
OF_FOUR, OF_TWO = "_with_labels_4classes.csv", "_with_labels_2classes.csv"
LISTS = (OF_FOUR, OF_TWO)
"""A split's list of votes is taken before its list of two classes."""


def pictures(root: Place) -> Iterator[LabelledPicture]:
    lists = set(names_in(root.at("Dataset_split")))
    for folder, split in SPLITS.items():
        name = next((name for name in (f"{folder}{ending}" for ending in LISTS) if name in lists), None)
        if name is None:
            continue
        images = f"Images/{folder}"
        by_id = {name.split("_")[0].split(".")[0]: name for name in names_in(root.at(images)) if has_picture_name(name)}
        for number, (where, row) in enumerate(csv_rows(root.at("Dataset_split", name), f"Dataset_split/{name}")):
            vote = vote_of(row[1]) if len(row) > 1 else None
            if vote is None:
                if number == 0 and len(row) > 1:
                    continue  # column names
                raise LabelsError(f"{where}: the second column is neither private nor public")
            photo_id = row[0].strip()
            path = inside(f"{images}/{by_id.get(photo_id, photo_id)}", where)
            if not photo_id or not path.startswith(f"{images}/"):
                raise LabelsError(f"{where}: the first column is not a photo id")
            is_vote = name.endswith(OF_FOUR) or vote not in VALUES
            yield LabelledPicture(
                path,
                private=int(vote in PRIVATE_VOTES),
                vote=vote if is_vote else None,
                split=split,
                key=photo_id,
                where=where,
            )
