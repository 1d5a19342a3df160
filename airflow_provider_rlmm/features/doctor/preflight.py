# SPDX-License-Identifier: Apache-2.0
"""
What is lost if the metadata topic is ever compacted (KIP-1266): its records without a key, which the log cleaner drops
in any case, and what a shorter retention forgets before the data are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import is_among
from airflow_provider_rlmm.core.base.clock import time_text
from airflow_provider_rlmm.core.log.metadata_settings import TieredRetention
from airflow_provider_rlmm.core.records.keys import parse_key
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, OWN_BROKER_ID

_OURS: Final = (OWN_BROKER_ID, COPIER_BROKER_ID)
_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class KeylessRecords:
    """
    Records without a key.

    :param count: how many there are.
    :param newest_ms: time of the newest, ms since the epoch; ``None`` where there is none.
    :param ours: how many of them this package has written, the copier's among them.
    :param newest_of_ours_ms: time of the newest of these, likewise.
    """

    count: int = 0
    newest_ms: int | None = None
    ours: int = 0
    newest_of_ours_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CompactionPreflight:
    """
    What to look at before brokers are made to compact the metadata topic.

    :param keyless: its records without a key.
    :param longest: the tiered topic whose data are kept longest, ``None`` where there is none.
    :param unknown: why it is not known which one that is; empty where it is known.
    """

    keyless: KeylessRecords
    longest: TieredRetention | None = None
    unknown: str = ""

    def __str__(self) -> str:
        return f"Before the metadata topic is ever compacted (KIP-1266): {self._of_records()} {self._of_retention()}"

    def _of_records(self) -> str:
        found = self.keyless
        if not found.count:
            return "it has no record without a key."
        ours = f"{number_of(found.ours, 'of them is', 'of them are')} this package's"
        if found.newest_of_ours_ms is not None:
            ours += f", the newest of {time_text(found.newest_of_ours_ms)}"
        return (
            f"{found.count:,} of its records have no key, the newest of {_time(found.newest_ms)}; {ours}. The log cleaner "
            "drops them all."
        )

    def _of_retention(self) -> str:
        if self.unknown:
            return f"Which topic keeps its data longest is not known: {self.unknown}."
        if self.longest is None:
            return "No tiered topic lives."
        return (
            f"Topic {self.longest.topic} keeps its data {self.longest.kept}: with a shorter retention.ms brokers forget "
            "remote segments whose data still exist."
        )


NOTHING_READ: Final = CompactionPreflight(KeylessRecords())


class KeyWatch:
    """Counts what has no key, and looks for a key that names what its record names: the cluster's brokers write such ones."""

    def __init__(self) -> None:
        self.keyless = KeylessRecords()
        self.key_seen: str | None = None
        """Where the first such key was read, in words; ``None`` where none was."""

    def note(self, decoded: Any) -> None:
        """
        Take a chunk.

        :param decoded: what ``decode`` returned.
        """
        import pyarrow.compute as pc

        keys = decoded.column("key")
        without = decoded.filter(pc.is_null(keys)) if keys.null_count < decoded.num_rows else decoded
        ours = without.filter(_is_ours(without))
        before = self.keyless
        self.keyless = KeylessRecords(
            before.count + without.num_rows,
            _newer(before.newest_ms, without),
            before.ours + ours.num_rows,
            _newer(before.newest_of_ours_ms, ours),
        )
        if self.key_seen is None and without.num_rows < decoded.num_rows:
            self.key_seen = _key_of_a_broker(decoded.filter(pc.is_valid(keys)))


def _is_ours(rows: Any) -> Any:
    return is_among(rows.column("broker_id"), _OURS)


def _newer(before_ms: int | None, rows: Any) -> int | None:
    """Return the newest time of some records and of those before them, ms since the epoch."""
    import pyarrow.compute as pc

    newest_ms: int | None = pc.max(rows.column("timestamp_ms")).as_py()
    return max((ms for ms in (before_ms, newest_ms) if ms is not None), default=None)


def _key_of_a_broker(rows: Any) -> str | None:
    """Say where the first record lies whose key names what it names: anybody may have written one that does not."""
    from airflow_provider_rlmm.core.records.columnar import iter_events

    # Where brokers write keys the first record has one, so that few are taken apart.
    for at in range(0, rows.num_rows, _ROWS):
        some = rows.slice(at, _ROWS)
        columns = (some.column(name).to_pylist() for name in ("metadata_partition", "offset", "key"))
        for metadata_partition, offset, raw, event in zip(*columns, iter_events(some), strict=True):
            key = parse_key(raw)
            if key is not None and event is not None and key.names(event):
                return f"metadata partition {metadata_partition} at offset {offset}"
    return None


def _time(time_ms: int | None) -> str:
    return "an unknown time" if time_ms is None else time_text(time_ms)
