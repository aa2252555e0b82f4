"""A scan before it begins: its source and lists are opened, and where it would run is known."""

from dataclasses import dataclass, replace

from ingest.categories.class_list import read_class_list
from ingest.categories.keyword_list import read_keyword_list
from ingest.errors import LabelsError, StorageError, number_of
from ingest.formats import Source, open_source
from ingest.images.pixels import ImageLimits
from ingest.storage.place import place
from jobs.runtime.hash_list import HashList, hash_list_of
from jobs.scan.request import ScanRequest, ScanResources
from scoring.assessment import EngineDescription, EngineModule
from scoring.engines import engine_module
from scoring.protocols import name_to_continue
from scoring.runs.layout import RUN_RECORD
from scoring.runs.record import open_run


@dataclass(frozen=True)
class Prepared:
    """A request whose source and lists were found to be right. The engine is not asked, and nothing is written."""

    request: ScanRequest
    module: EngineModule
    source: Source
    hash_list: HashList

    def limits(self, description: EngineDescription) -> ImageLimits:
        """Limits of the pictures that the engine gets."""
        has_pdq = self.request.pdq or self.hash_list.needs_pdq
        return ImageLimits(self.request.max_pixels_in, self.request.max_frames, description.max_side_px, has_pdq)


def prepare(request: ScanRequest) -> Prepared:
    """EngineError for an unknown engine; SourceError, LabelsError or StorageError where the scan could not begin."""
    module = engine_module(request.engine)
    class_list = None if request.labels is None else read_class_list(request.labels)
    keyword_list = None if request.caption_words is None else read_keyword_list(request.caption_words)
    source = open_source(request.source, request.source_format, request.category, class_list, keyword_list)
    return Prepared(_as_begun(request), module, source, hash_list_of(request.hash_list))


def _as_begun(request: ScanRequest) -> ScanRequest:
    """A run that began with an earlier revision of the protocol is continued with that one."""
    name = request.options.protocol
    if name is None or not place(request.run).at(RUN_RECORD).exists():
        return request
    begun_with = str(open_run(request.run)[1].engine["protocol"])
    return replace(request, options=replace(request.options, protocol=name_to_continue(name, begun_with)))


def refuse_foreign_list(source: Source) -> None:
    """LabelsError where `--labels` names no image of the source. Stops at the first that it names."""
    if source.class_list is None:
        return
    try:
        if any(of for shard in source.shards for of in source.categories(shard)):
            return
    except StorageError:  # the scan says of which shard, and may name the class
        return
    raise LabelsError(
        f"{source.class_list.url}: none of its {number_of(source.class_list.num_names, 'name')} is one of the "
        "source's images; names must be the keys of the rows, with or without folders and extension"
    )


def is_on_cluster(resources: ScanResources) -> bool:
    """Whether the work is done by a cluster rather than by this machine alone."""
    from jobs.runtime.cluster import is_this_machine

    return resources.executor == "ray" and not is_this_machine(resources.ray_address)


def gpus_per_engine(prepared: Prepared, resources: ScanResources) -> float:
    """What Ray sets aside for an engine: to be called inside of `ray_session`."""
    if resources.engine_gpus is not None:
        return resources.engine_gpus
    from jobs.runtime.cluster import default_num_gpus

    model = prepared.module.requirements(prepared.request.options).local_model
    return default_num_gpus(resources.ray_address, 0 if model is None else model.num_gpus)
