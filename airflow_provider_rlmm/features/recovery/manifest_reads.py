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
from airflow_provider_rlmm.features.recovery.log_batches import ChangedError, batches_in
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

    def asks(self, listed: ListedSegment, layout: Layout) -> bool:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        return listed.is_complete(layout) or (self._whole_logs and _has_a_log_only(listed))

    def read(self, listed: ListedSegment, fetch: Fetch) -> Said:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
        if MANIFEST not in listed.sizes:
            return read_whole_log(listed, fetch)
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


def read_whole_log(listed: ListedSegment, fetch: Fetch) -> Said:
    """
    Read all batches of a log without its manifest.

    :param listed: the segment.
    :param fetch: reads an object.
    """
    key, start = listed.stem + LOG, listed.readings[0].start_offset or 0
    try:
        if _first_offset(fetch(key, 0, _BASE_OFFSET_BYTES - 1)) != start:
            return PackedLog(
                f"its manifest is gone, and {key} does not begin with offset {start} as a broker's log does: it is "
                "compressed, encrypted or damaged"
            )
        before, newest_ms, epochs = start - 1, -1, dict[int, int]()
        for headers in batches_in(listed, LOG, 0, fetch):
            for row in range(len(headers)):
                base, last = int(headers.base_offset[row]), int(headers.last_offset[row])
                if base <= before:
                    why = f"it begins with offset {base}, and those before it reach to {before}"
                    raise headers.damaged(int(headers.position[row]), why)
                epoch = int(headers.leader_epoch[row])
                if epochs and epoch < max(epochs):
                    why = f"its leader epoch {epoch} is below the one before it"
                    raise headers.damaged(int(headers.position[row]), why)
                epochs.setdefault(epoch, base)
                # A first offset has no checksum: behind a gap the last batch counts as if there were none.
                reaches = last if base == before + 1 else before + 1 + last - base
                before, newest_ms = last, max(newest_ms, int(headers.max_timestamp_ms[row]))
        inside = tuple((epoch, offset) for epoch, offset in epochs.items() if offset <= reaches)
        return LoggedSegment(reaches, inside, listed.sizes[LOG], newest_ms)
    except RemoteObjectNotFoundError:
        return Unread(f"{key} was listed and is gone: objects are being deleted", damaged=False)
    except (DamagedObjectError, UnsupportedMessageFormatError) as e:
        return Unread(f"its manifest is gone, and {e}", damaged=True)
    except ChangedError as e:
        return Unread(str(e), damaged=False)


def _first_offset(data: bytes) -> int:
    return int.from_bytes(data, "big") if len(data) == _BASE_OFFSET_BYTES else -1
