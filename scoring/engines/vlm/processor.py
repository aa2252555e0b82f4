"""A model's own processor, as transformers loads it: it turns a chat and a picture into the model's inputs."""

import re
from pathlib import Path
from typing import Any

from ingest.errors import EngineError
from ingest.sample import printable
from scoring.engines.vlm.checkpoint import read_json


def processor_of(folder: Path) -> Any:
    """Load the processor. EngineError for a model that needs its own code, a missing package, or a model that takes no
    chat with images."""
    try:
        from transformers import CONFIG_MAPPING, AutoProcessor
    except ImportError as error:
        raise EngineError(
            f"transformers cannot be loaded ({type(error).__name__}), mostly because torch and torchvision do not "
            "belong together; install both from one index"
        ) from error
    kind = str(read_json(folder / "config.json", f'the model folder "{folder}"').get("model_type"))
    if kind not in CONFIG_MAPPING:
        raise EngineError(
            f'the model "{folder.name}" is of the type "{printable(kind)}", which this version of transformers lacks; '
            "models that need code of their own are not loaded, privsieve help engines lists those that are"
        )
    try:
        processor: Any = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the edge: transformers passes on whatever a wrong file made it raise
        if isinstance(error, ImportError) and (package := re.search(r"pip install ([\w-]+)", str(error))):
            needs = f"needs a package: pip install {package[1]}"
        else:
            needs = f"cannot be loaded ({type(error).__name__}); models that need code of their own are not loaded"
        raise EngineError(f'the processor of the model "{folder.name}" {needs}') from error
    has_images = getattr(processor, "image_processor", None) is not None
    if not has_images or getattr(processor, "chat_template", None) is None:
        what = "chat template" if has_images else "image processor"
        raise EngineError(f'the model "{folder.name}" has no {what}; choose an instruction-tuned vision model')
    return processor
