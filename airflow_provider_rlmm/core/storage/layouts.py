# SPDX-License-Identifier: Apache-2.0
"""
Where a remote storage plugin puts the objects of a segment: the mapping between segments and object keys.

A layout makes no call. What it builds always lies under one of its places; what it reads back is what it would have built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import scalar_of
from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    ForeignPrefixError,
    MalformedMetadataError,
    UnsafeObjectKeyError,
)
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.storage.aiven_files import AivenFiles
from airflow_provider_rlmm.core.storage.aiven_metadata import read_custom_metadata, without_other_prefix
from airflow_provider_rlmm.core.storage.aiven_packing import (
    AivenPacker,
    AivenPacking,
    learn_packing,
    packing_of,
)
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.key_pattern import KeyPattern
from airflow_provider_rlmm.core.storage.layout import LET_BROKERS_COPY, Layout, is_suffix
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.core.storage.segment_files import ReadObject, SegmentFiles, SegmentPacker

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
    from airflow_provider_rlmm.core.storage.uploads import ObjectContent


class TemplateLayout:
    """
    A layout whose keys are a prefix, a :class:`~airflow_provider_rlmm.core.storage.key_pattern.KeyPattern` and a suffix.

    :param name: of the layout.
    :param pattern: of the keys, without prefix and suffix. Folders that it begins with are taken for a part of the prefix.
    :param suffixes: suffix → whether a complete segment must have it; ``""`` may be one.
    :param key_prefixes: what the keys begin with: the one that is written with first, then former ones.
    :param files: which suffix holds the log (``None``) or an index, where that is known.
    :raises ConfigurationError: for a pattern, prefix or suffix that cannot be read back, or that stores read as another.
    """

    def __init__(
        self,
        name: str,
        pattern: str,
        suffixes: Mapping[str, bool],
        *,
        key_prefixes: Sequence[str] = ("",),
        files: Mapping[IndexType | None, str] = MappingProxyType({}),
    ) -> None:
        folders = pattern[: pattern.find("{")].rpartition("/")
        fixed = folders[0] + folders[1]
        self.name = name
        self.suffixes: Mapping[str, bool] = MappingProxyType(dict(suffixes))
        in_folders = any(suffix.startswith("/") for suffix in suffixes)
        self._pattern = KeyPattern(pattern.removeprefix(fixed), in_folders=in_folders)
        self._files = files
        twins = {checked_key_prefix(prefix) + fixed: _twin(prefix, fixed) for prefix in key_prefixes}
        prefixes = [prefix + fixed for prefix in key_prefixes]
        if len(set(prefixes)) != len(prefixes):
            raise ConfigurationError(f"storage layout {name}: a key prefix is named twice")
        self._prefixes = {Place(p.rstrip("/") or "/", p[: p.rfind("/") + 1], twins[p]): p for p in prefixes}
        self.places = tuple(self._prefixes)
        if len({place.name for place in self.places}) != len(self.places):
            raise ConfigurationError(f"storage layout {name}: two key prefixes differ in their last / only")
        if not suffixes or any(_is_a_path(suffix) for suffix in suffixes):
            raise ConfigurationError(
                f"storage layout {name}: name the suffixes of its objects, none of them with / but at its beginning"
            )
        if in_folders and not all(suffix.startswith("/") for suffix in suffixes):
            raise ConfigurationError(
                f"storage layout {name}: either all suffixes begin with /, as each segment has a folder of its own, or none"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._pattern.text!r}, {list(self._prefixes.values())})"

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        """See :class:`Layout`; custom metadata tells nothing here."""
        return self.places

    def names_only(self, custom_metadata: pa.ChunkedArray, prefixes: Collection[str] = ()) -> pa.ChunkedArray:
        """See :class:`Layout`; custom metadata tells nothing here."""
        import pyarrow as pa

        return pa.chunked_array([pa.repeat(scalar_of(True, pa.bool_()), len(custom_metadata))])

    def recorded_prefix(self, custom_metadata: bytes | None) -> str | None:
        """See :class:`Layout`; custom metadata tells nothing here."""
        return None

    def below(self, key_prefix: str) -> Layout:
        """See :class:`Layout`."""
        return TemplateLayout(
            self.name, self._pattern.text, self.suffixes, key_prefixes=(key_prefix,), files=self._files
        )

    def partition_prefix(self, topic_id_partition: TopicIdPartition, place: Place | None = None) -> str:
        """See :class:`Layout`."""
        whole = self._prefixes[place or self.places[0]] + self._pattern.folder(topic_id_partition)
        return whole[: whole.rfind("/") + 1]

    def segment_stem(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> str:
        """See :class:`Layout`."""
        return self._prefixes[place or self.places_of(metadata)[0]] + self._pattern.stem(metadata)

    def required_keys(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> tuple[str, ...]:
        """See :class:`Layout`."""
        stem = self.segment_stem(metadata, place)
        return tuple(stem + suffix for suffix, required in self.suffixes.items() if required)

    def object_key(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
        """See :class:`Layout`."""
        if index_type not in self._files:
            raise ConfigurationError(self._not_said(index_type))
        return self.segment_stem(metadata) + self._files[index_type]

    def parse(self, key: str, place: Place | None = None) -> RemoteLogSegmentId | None:
        """See :class:`Layout`."""
        parts = (self.parts(key, p) for p in (self.places if place is None else (place,)))
        return next((found[0] for found in parts if found is not None), None)

    def parts(self, key: str, place: Place) -> tuple[RemoteLogSegmentId, str] | None:
        """See :class:`Layout`."""
        prefix = self._prefixes[place]
        found = self._pattern.parse(key[len(prefix) :]) if key.startswith(prefix) else None
        return found if found is not None and is_suffix(found[1], self.suffixes) else None

    def start_offset(self, key: str, place: Place) -> int | None:
        """See :class:`Layout`."""
        return None if self.parts(key, place) is None else self._pattern.start_offset(key[len(self._prefixes[place]) :])

    def recorded_size(self, log_bytes: int, custom_metadata: bytes | None) -> tuple[frozenset[str], int] | None:
        """See :class:`Layout`; what a plugin does to the bytes is not known here."""
        return None

    @property
    def folders_name_topics(self) -> bool:
        """See :class:`Layout`."""
        return self._pattern.folders_name_topics

    def topic_id_of_directory(self, directory: str, place: Place | None = None) -> UUID | None:
        """See :class:`Layout`."""
        name = directory.removesuffix("/")
        for prefix in self._prefixes.values() if place is None else (self._prefixes[place],):
            if name.startswith(prefix) and (found := self._pattern.topic_id_of_folder(name[len(prefix) :])) is not None:
                return found
        return None

    def segment_files(self, read: ReadObject) -> SegmentFiles:
        """See :class:`Layout`: each object is a file."""
        return PlainFiles(self, read)

    def packer(self, read: ReadObject, copies: Iterable[RemoteLogSegmentMetadata]) -> SegmentPacker:
        """
        See :class:`Layout`: each file becomes an object. Where the key of the transaction index alone is not known nothing is
        copied, too: the first segment with an aborted transaction would end the copy.
        """
        if missing := [kind for kind in (None, *IndexType) if kind not in self._files]:
            raise ConfigurationError(
                f"nothing can be copied into the storage layout {self.name}: {self._not_said(missing[0])}. {LET_BROKERS_COPY}"
            )
        return PlainPacker(self)

    def _not_said(self, index_type: IndexType | None) -> str:
        what = "the log" if index_type is None else f"index {index_type.value}"
        return f"storage layout {self.name} does not say which object holds {what} of a segment"


def _is_a_path(suffix: str) -> bool:
    name = suffix.removeprefix("/")
    return "/" in name or name in (".", "..") or suffix == "/"


def _twin(prefix: str, fixed: str) -> str | None:
    """Return the key prefix that differs in its last ``/`` only; none has none."""
    return (f"{prefix}/" if not prefix.endswith("/") else prefix[:-1]) + fixed if prefix else None


_PREFIX: Final = re.compile(r"[^\x00-\x1f\x7f]*")


def checked_key_prefix(prefix: str) -> str:
    """
    Return a key prefix that means one place in every store.

    :param prefix: what keys begin with; it may end in ``/`` or not.
    :raises ConfigurationError: if stores read it as another one.
    """
    steps = prefix.removesuffix("/").split("/")
    if prefix and (any(step in ("", ".", "..") for step in steps) or not _PREFIX.fullmatch(prefix)):
        raise ConfigurationError(
            f"the key prefix {in_quotes(prefix)} is refused: object stores cannot address a key that begins with /, or has "
            "//, /./, /../ or control characters"
        )
    return prefix


class LocalTieredStorageLayout(TemplateLayout):
    """
    The files of Kafka's ``LocalTieredStorage`` (class ``RemoteLogSegmentFileset``), whose ``dir`` is the storage root.

    ``kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset, 20 digits>-<segment id><suffix>``
    """

    name: Final = "local-tiered-storage"
    prefix: Final = "kafka-tiered-storage/"

    def __init__(self) -> None:
        files = {
            None: ".log",
            IndexType.OFFSET: ".index",
            IndexType.TIMESTAMP: ".timeindex",
            IndexType.PRODUCER_SNAPSHOT: ".snapshot",
            IndexType.LEADER_EPOCH: ".leader_epoch_checkpoint",
            IndexType.TRANSACTION: ".txnindex",
        }
        # A transaction index is there only with aborted transactions.
        suffixes = {suffix: kind is not IndexType.TRANSACTION for kind, suffix in files.items()}
        pattern = self.prefix + "{topic}-{partition}-{topic_id}/{start_offset:020}-{segment_id}"
        super().__init__(LocalTieredStorageLayout.name, pattern, suffixes, files=files)

    def recorded_size(self, log_bytes: int, custom_metadata: bytes | None) -> tuple[frozenset[str], int] | None:
        """See :class:`Layout`: the log is copied as it is."""
        return frozenset({self._files[None]}), log_bytes


class AivenLayout(TemplateLayout):
    """
    The objects of Aiven's tiered-storage plugin: three for each segment, compressed and encrypted or not.

    ``<key.prefix><topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.(log|indexes|rsm-manifest)``

    :param key_prefix: the plugin's ``key.prefix``; with or without ``/`` at its end, as it is there.
    :param former_key_prefixes: prefixes under which older copies lie.
    :param packing: how the plugin is set, where that is known.
    :raises ConfigurationError: for a prefix that object stores cannot address.
    """

    name: Final = "aiven"

    def __init__(
        self, key_prefix: str = "", former_key_prefixes: Sequence[str] = (), packing: AivenPacking | None = None
    ) -> None:
        self._packing = packing
        super().__init__(
            AivenLayout.name,
            "{topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}",
            {".log": True, ".indexes": True, ".rsm-manifest": True},
            key_prefixes=(key_prefix, *former_key_prefixes),
            files={None: ".log"},
        )

    def below(self, key_prefix: str) -> AivenLayout:
        """See :class:`Layout`."""
        return AivenLayout(key_prefix, packing=self._packing)

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        """See :class:`Layout`. A copy whose prefix was recorded lies there and nowhere else."""
        try:
            custom = read_custom_metadata(metadata.custom_metadata)
        except MalformedMetadataError as e:
            raise UnsafeObjectKeyError(_refused(metadata, f"it cannot be read ({e})")) from e
        if custom.object_key is not None and custom.object_key != (path := self._pattern.stem(metadata)):
            why = f"its key {in_quotes(custom.object_key)} is not {in_quotes(path)}"
            raise UnsafeObjectKeyError(_refused(metadata, why))
        if custom.object_prefix is None:
            return self.places
        found = tuple(place for place, prefix in self._prefixes.items() if prefix == custom.object_prefix)
        if not found:
            raise ForeignPrefixError(_refused(metadata, foreign_prefix(custom.object_prefix)), custom.object_prefix)
        return found

    def names_only(self, custom_metadata: pa.ChunkedArray, prefixes: Collection[str] = ()) -> pa.ChunkedArray:
        """See :class:`Layout`."""
        return without_other_prefix(custom_metadata, {*self._prefixes.values(), *prefixes})

    def recorded_prefix(self, custom_metadata: bytes | None) -> str | None:
        """See :class:`Layout`: OBJECT_PREFIX."""
        try:
            return read_custom_metadata(custom_metadata).object_prefix
        except MalformedMetadataError:
            return None

    def recorded_size(self, log_bytes: int, custom_metadata: bytes | None) -> tuple[frozenset[str], int] | None:
        """See :class:`Layout`: REMOTE_SIZE is that of all three objects."""
        try:
            size = read_custom_metadata(custom_metadata).remote_size
        except MalformedMetadataError:
            return None
        return None if size is None else (frozenset(self.suffixes), size)

    def segment_files(self, read: ReadObject) -> SegmentFiles:
        """See :class:`Layout`: as the manifest of each segment says."""
        return AivenFiles(self, read)

    def packer(self, read: ReadObject, copies: Iterable[RemoteLogSegmentMetadata]) -> SegmentPacker:
        """See :class:`Layout`: as the plugin would, which is set as the copies of brokers show it."""
        return AivenPacker(self, self._prefixes[self.places[0]], learn_packing(self, read, copies, self._packing))


def foreign_prefix(prefix: str) -> str:
    """
    Say that a copy lies where the connection does not look.

    :param prefix: the key prefix that its custom metadata names.
    """
    return f"its prefix {in_quotes(prefix)} is neither key_prefix nor one of former_key_prefixes"


def _refused(metadata: RemoteLogSegmentMetadata, why: str) -> str:
    return (
        f"the custom metadata of segment {metadata.remote_log_segment_id}, start offset {metadata.start_offset}, is "
        f"refused: {why}; its bytes are {(metadata.custom_metadata or b'')[:160].hex()}"
    )


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """
    What a connection says of its layout.

    :param key_prefix: what all keys begin with, with or without ``/`` at its end.
    :param former_key_prefixes: what the keys of older copies begin with.
    :param key_pattern: of the layout ``template``, see :class:`~airflow_provider_rlmm.core.storage.key_pattern.KeyPattern`.
    :param key_suffixes: of the layout ``template``: suffix → whether a complete segment must have it.
    :param key_files: of the layout ``template``: suffix → which file that object is, ``log`` or a name of :class:`IndexType`;
        none where it is not known.
    :param plugin_settings: of the layout ``aiven``: how the plugin is set, see
        :func:`~airflow_provider_rlmm.core.storage.aiven_packing.packing_of`.
    """

    key_prefix: str = ""
    former_key_prefixes: tuple[str, ...] = ()
    key_pattern: str | None = None
    key_suffixes: Mapping[str, bool] = field(default_factory=dict)
    key_files: Mapping[str, str] = field(default_factory=dict)
    plugin_settings: str | None = None


LayoutFactory = Callable[[LayoutOptions], Layout]
"""
Makes a layout; refuses by :class:`~airflow_provider_rlmm.core.base.errors.ConfigurationError` what it does not
understand.
"""

LAYOUTS_GROUP: Final = "airflow_provider_rlmm.storage_layouts"
"""Entry points of this group are further layouts: name → :data:`LayoutFactory`."""

TEMPLATE: Final = "template"


def _local(options: LayoutOptions) -> Layout:
    if options != LayoutOptions():
        raise ConfigurationError(
            f"storage layout {LocalTieredStorageLayout.name} takes no key prefix, pattern or suffixes"
        )
    return LocalTieredStorageLayout()


def _aiven(options: LayoutOptions) -> Layout:
    if options.key_pattern is not None or options.key_suffixes:
        raise ConfigurationError(f"storage layout {AivenLayout.name} takes no key_pattern and no key_suffixes")
    settings = options.plugin_settings
    packing = packing_of(settings) if settings is not None else None
    return AivenLayout(options.key_prefix, options.former_key_prefixes, packing)


def _template(options: LayoutOptions) -> Layout:
    if options.key_pattern is None or not options.key_suffixes:
        raise ConfigurationError(f"storage layout {TEMPLATE} needs key_pattern and key_suffixes")
    if options.plugin_settings is not None:
        raise ConfigurationError(f"storage layout {TEMPLATE} takes no plugin_settings")
    prefixes = (options.key_prefix, *options.former_key_prefixes)
    files = _files_of(options.key_files)
    return TemplateLayout(TEMPLATE, options.key_pattern, options.key_suffixes, key_prefixes=prefixes, files=files)


def _files_of(named: Mapping[str, str]) -> Mapping[IndexType | None, str]:
    """Return which suffix holds the log, ``None``, or an index."""
    known: Mapping[str, IndexType | None] = {"log": None, **{kind.value: kind for kind in IndexType}}
    files: dict[IndexType | None, str] = {}
    for suffix, name in named.items():
        if name not in known:
            raise ConfigurationError(
                f"key_suffixes: {in_quotes(suffix)} is {in_quotes(name)}, none of {', '.join(known)}"
            )
        if known[name] in files:
            raise ConfigurationError(f"key_suffixes: two of them are {name}")
        files[known[name]] = suffix
    return files


_LAYOUTS: Final[Mapping[str, LayoutFactory]] = MappingProxyType(
    {LocalTieredStorageLayout.name: _local, AivenLayout.name: _aiven, TEMPLATE: _template}
)


def layout_named(name: str, options: LayoutOptions | None = None) -> Layout:
    """
    Return the layout with the given name: one of this package, or an entry point of :data:`LAYOUTS_GROUP`.

    :param name: for example ``local-tiered-storage``.
    :param options: what the connection says of it.
    :raises ConfigurationError: for an unknown name, the message lists the known ones; for options that the layout refuses.
    """
    factory = _LAYOUTS.get(name) or _layout_of_others(name)
    return factory(options or LayoutOptions())


def _layout_of_others(name: str) -> LayoutFactory:
    # Reading what all installed packages declare takes tens of milliseconds.
    others = {point.name: point for point in entry_points(group=LAYOUTS_GROUP)}
    if name not in others:
        known = sorted({*_LAYOUTS, *others})
        raise ConfigurationError(f"unknown storage layout {name!r}; choose one of: {', '.join(known)}")
    factory: LayoutFactory = others[name].load()
    return factory


class PlainFiles:
    """
    Files that are objects, byte for byte.

    :param layout: which object is which file.
    :param read: reads an object.
    """

    def __init__(self, layout: Layout, read: ReadObject) -> None:
        self._layout = layout
        self._read = read

    def log(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None) -> bytes:
        """See :class:`SegmentFiles`."""
        return self._read(self._layout.object_key(metadata, None), start, end)

    def index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """See :class:`SegmentFiles`."""
        return self._read(self._layout.object_key(metadata, index_type))


class PlainPacker:
    """
    Makes an object of each file, byte for byte.

    :param layout: which file is which object.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def objects(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> Generator[tuple[str, ObjectContent], None, bytes | None]:
        """See :class:`SegmentPacker`: the log comes last, so that a listed log means that its indexes are there."""
        for index_type, content in data.indexes.items():
            yield self._layout.object_key(metadata, index_type), content
        yield self._layout.object_key(metadata, None), data.log_segment
        return None

    def most_custom_metadata_bytes(self, metadata: RemoteLogSegmentMetadata) -> int:
        """See :class:`SegmentPacker`: it has none."""
        return 0
