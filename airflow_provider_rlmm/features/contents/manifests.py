# SPDX-License-Identifier: Apache-2.0
"""A manifest of Aiven's plugin beside what the log says, and beside the sizes of the objects that it names."""

from __future__ import annotations

from functools import partial
from typing import Final

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteObjectNotFoundError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.storage.aiven_manifest import MAX_MANIFEST_BYTES
from airflow_provider_rlmm.core.storage.aiven_record import (
    INDEXES,
    LOG,
    MANIFEST,
    RecordedSegment,
    read_recorded_segment,
)
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.contents.storage_source import PacedStorage

_SAID: Final = (
    "remote_log_segment_id", "start_offset", "end_offset", "max_timestamp_ms", "segment_size_in_bytes",
    "segment_leader_epochs",
)  # fmt: skip


def compare_manifest(storage: PacedStorage, metadata: RemoteLogSegmentMetadata, report: Report) -> None:
    """
    Compare the manifest of a segment with its metadata and with the sizes of its objects; other layouts have none.

    :param storage: has the objects.
    :param metadata: the segment.
    :param report: takes what is wrong.
    :raises RemoteObjectNotFoundError: if it is not there.
    :raises RlmmError: if the storage does not answer.
    """
    layout = storage.manager.layout
    if layout.name != AivenLayout.name:
        return
    stem, data = _manifest(storage, metadata)
    try:
        said = read_recorded_segment(data, stem + MANIFEST)
    except DamagedObjectError as e:
        report(Finding(kind=DamageKind.PACKING, position=e.position, why=str(e)))
        return
    for name in _SAID:
        known, seen = getattr(metadata, name), getattr(said, name)
        if known != seen:
            _report_field(report, stem, name, known, seen)
    # The copier's own broker id is never the manifest's; a broker's is.
    if metadata.broker_id >= 0 and said.txn_idx_empty is not None and said.txn_idx_empty != metadata.txn_idx_empty:
        _report_field(report, stem, "txn_idx_empty", metadata.txn_idx_empty, said.txn_idx_empty)
    _compare_sizes(storage, stem, said, report)


def _manifest(storage: PacedStorage, metadata: RemoteLogSegmentMetadata) -> tuple[str, bytes]:
    layout = storage.manager.layout
    stems = [layout.segment_stem(metadata, place) for place in layout.places_of(metadata)]
    for stem in stems:
        key = stem + MANIFEST
        try:
            return stem, storage.ask(partial(storage.manager.fetch_object, key, 0, MAX_MANIFEST_BYTES))
        except RemoteObjectNotFoundError:
            continue
    raise RemoteObjectNotFoundError(f"cannot read {' or '.join(stem + MANIFEST for stem in stems)}: no such object")


def _report_field(report: Report, stem: str, name: str, known: object, seen: object) -> None:
    why = f"its manifest {stem}{MANIFEST} says {name} {seen}, and the metadata say {known}"
    report(Finding(kind=DamageKind.METADATA, expected=str(known), seen=str(seen), why=why))


def _compare_sizes(storage: PacedStorage, stem: str, said: RecordedSegment, report: Report) -> None:
    named = {stem + LOG: said.log_bytes, stem + INDEXES: said.index_bytes}
    listed = storage.manager.stored_objects(named)
    for key, size in named.items():
        if key in listed and listed[key].size != size:
            why = f"{key} has {listed[key].size} bytes, and its manifest names {size}"
            report(Finding(kind=DamageKind.SIZE, expected=str(size), seen=str(listed[key].size), why=why))
