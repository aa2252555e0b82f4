"""`RUN/canary/`: the answers of each engine of a run to the same made picture, for comparison."""

import hashlib

from ingest.errors import EngineError
from ingest.storage.place import Place
from scoring.engines.canary import difference


def refuse_other_answer(folder: Place, own: bytes) -> None:
    """Write the answer `own` to the folder. EngineError if another engine of the run gave a different one.

    own: of `scoring.engines.canary.record`. It is written before the others are read: of two engines that start
    together, one sees the other.
    """
    file = folder.at(f"{hashlib.sha256(own).hexdigest()[:16]}.json")
    is_first = not file.exists()
    file.write(own)
    for name in folder.names():
        if not name.endswith(".json"):
            continue
        try:
            why = difference(folder.at(name).read(), own)
        except (ValueError, KeyError, TypeError):
            raise EngineError(f"{folder.at(name).path} is damaged; remove it") from None
        if why is not None:
            if is_first:  # this engine is refused, so others need not agree with it
                file.remove()
            raise EngineError(f"an engine is set up differently from another one of this run: {why}")
