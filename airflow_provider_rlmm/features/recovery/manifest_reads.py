# SPDX-License-Identifier: Apache-2.0
"""The manifest of a segment, which Aiven's plugin leaves beside it."""

from __future__ import annotations

from typing import Final

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RemoteObjectNotFoundError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.storage.aiven_manifest import MAX_MANIFEST_BYTES
from airflow_provider_rlmm.core.storage.aiven_record import LOG, MANIFEST, read_recorded_segment
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.features.recovery.log_batches import PART_BYTES, LogObject
from airflow_provider_rlmm.features.recovery.rules import ListedSegment, LoggedSegment, PackedLog, Said, Unread
from airflow_provider_rlmm.features.recovery.segment_reads import Fetch

_BASE_OFFSET_BYTES: Final = 8
"""A record batch begins with its first offset."""


class Manifests:
    """
    A :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`: the manifest says nearly all.

    :param whole_logs: whether the whole log is read of a segment whose manifest is gone.
    """

    def __init__(self, *, whole_logs: bool = False) -> None:
        self._whole_logs = whole_logs

    @property
    def reads(self) -> str:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        return "manifests and whole logs without one" if self._whole_logs else "manifests"

    def asks(self, listed: ListedSegment, layout: Layout) -> bool:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        return listed.is_complete(layout) or (self._whole_logs and _has_a_log_only(listed))

    def read(self, listed: ListedSegment, fetch: Fetch) -> Said:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        if MANIFEST not in listed.sizes:
            return _proved_log(listed, fetch)
        key, size = listed.stem + MANIFEST, listed.sizes[MANIFEST]
        if size > MAX_MANIFEST_BYTES:
            return Unread(f"{key} has {size} bytes, more than a manifest can have", damaged=True)
        try:
            # One byte more than was listed: what has grown since is told from what is whole.
            data = fetch(key, 0, size)
            if len(data) != size:
                return Unread(f"{key} was listed with {size} bytes and read with {len(data)}", damaged=False)
            return read_recorded_segment(data, key)
        except RemoteObjectNotFoundError:
            return Unread(f"{key} was listed and is gone: objects are being deleted", damaged=False)
        except DamagedObjectError as e:
            return Unread(str(e), damaged=True)
        except UnsupportedMessageFormatError as e:
            return Unread(str(e), damaged=False)


def _has_a_log_only(listed: ListedSegment) -> bool:
    """Tell whether a segment has a log and no manifest, and its key can be read in one way only."""
    return listed.is_whole and len(listed.readings) == 1 and LOG in listed.sizes and MANIFEST not in listed.sizes


def _proved_log(listed: ListedSegment, fetch: Fetch) -> Said:
    """Prove a log without its manifest by itself: nothing else says how it was packed, or where its indexes lie."""
    from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields
    from airflow_provider_rlmm.core.segments.proof.findings import DamageKind
    from airflow_provider_rlmm.core.segments.proof.proving import prove_segment

    key, size, start = listed.stem + LOG, listed.sizes[LOG], listed.readings[0].start_offset or 0
    fields = SegmentFields(start_offset=start, size_in_bytes=size)
    try:
        if _first_offset(fetch(key, 0, _BASE_OFFSET_BYTES - 1)) != start:
            return PackedLog(
                f"its manifest is gone, and {key} does not begin with offset {start} as a broker's log does: it is "
                "compressed, encrypted or damaged"
            )
        proof = prove_segment(fields, LogObject(key, fetch), chunk_bytes=PART_BYTES)
    except RemoteObjectNotFoundError:
        return Unread(f"{key} was listed and is gone: objects are being deleted", damaged=False)
    except UnsupportedMessageFormatError as e:
        return Unread(f"its manifest is gone, and {e}", damaged=True)
    if DamageKind.SIZE in proof.findings.counts:
        return Unread(f"{key} was listed with {size} bytes and read with others", damaged=False)
    seen = proof.seen
    if not proof.is_right or seen.last_offset is None:
        why = proof.findings.kept[0].why if proof.findings.kept else "it has no batch"
        return Unread(f"its manifest is gone, and of {key}: {why}", damaged=True)
    return LoggedSegment(seen.last_offset, seen.leader_epochs, size, seen.max_timestamp_ms)


def _first_offset(data: bytes) -> int:
    return int.from_bytes(data, "big") if len(data) == _BASE_OFFSET_BYTES else -1
