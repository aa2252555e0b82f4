"""The wrong answers of a run, those first of which it was most sure."""

import numpy as np

from ingest.sample import printable
from reports.evaluation.evaluate import JudgedRun
from reports.evaluation.results import WrongAnswer
from scoring.table import Col
from scoring.taxonomy import KEYS


def wrong_answers(judged: JudgedRun) -> list[WrongAnswer]:
    """Each picture once, copies of it left out. Pictures without an answer, or without bytes, are none of these."""
    given, truth = judged.answers.private, judged.truth.private
    is_wrong = ~np.isnan(given) & ~np.isnan(truth) & (given != truth)
    score = np.where(np.isnan(judged.answers.holistic_score), judged.answers.score, judged.answers.holistic_score)
    of_private = np.nan_to_num(np.where(np.isnan(judged.answers.prob_private), score, judged.answers.prob_private))
    confidence = np.where(given == 1, of_private, 1 - of_private)
    by_hash = dict[str, WrongAnswer]()
    rows = judged.joined.rows.select([Col.SHARD, Col.INDEX, Col.KEY, Col.SHA256])
    for index in sorted(np.flatnonzero(is_wrong).tolist(), key=lambda index: (-confidence[index], index)):
        row = rows.slice(index, 1).to_pylist()[0]
        if row[Col.SHA256] is None or row[Col.SHA256] in by_hash:
            continue
        by_hash[row[Col.SHA256]] = WrongAnswer(
            row[Col.SHARD],
            row[Col.INDEX],
            printable(row[Col.KEY]),
            row[Col.SHA256],
            bool(truth[index]),
            float(confidence[index]),
            tuple(key for key, value in zip(KEYS, judged.answers.values[index], strict=True) if value == 1),
        )
    return list(by_hash.values())
