# SPDX-License-Identifier: Apache-2.0
"""The manifest of a segment, which Aiven's plugin leaves beside it."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RemoteObjectNotFoundError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.storage.aiven_manifest import MAX_MANIFEST_BYTES
from airflow_provider_rlmm.core.storage.aiven_record import MANIFEST, read_recorded_segment
from airflow_provider_rlmm.features.recovery.rules import ListedSegment, Said, Unread
from airflow_provider_rlmm.features.recovery.segment_reads import Fetch


class Manifests:
    """A :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`: the manifest says nearly all."""

    def read(self, listed: ListedSegment, fetch: Fetch) -> Said:
        """See :class:`~airflow_provider_rlmm.features.recovery.segment_reads.Witness`."""
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
