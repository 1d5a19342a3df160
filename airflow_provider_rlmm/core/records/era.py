# SPDX-License-Identifier: Apache-2.0
"""
What a log has lost by intention: whether all that was ever said in it is still there.

Kafka up to 4.4 writes records without keys and keeps all of them. KIP-1266 will give them keys and let brokers compact the
topic: of all records with one key the last one stays. What such a log does not say may have been said, and brokers of such a
cluster refuse records without keys. Why an offset is missing no client can see: a compacted record and the marker of a
transaction look alike. So the era is told by the topic's configuration, by the keys that were read, and by what earlier runs
saw of both; it only ever rises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, MalformedMetadataError
from airflow_provider_rlmm.core.records.keys import parse_key
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_TOLD = 1_000

COMPACT = "compact"
"""Name in ``cleanup.policy`` of a topic that is compacted."""


class Era(IntEnum):
    """How much of what was ever said a log still has; a later one never becomes an earlier one again."""

    PLAIN = 0
    """No record has a key, and none was ever removed but at the log's beginning."""

    KEYED = 1
    """Records have keys, so that brokers of this cluster write in another way than this package does."""

    COMPACTED = 2
    """Records may have been removed anywhere."""


@dataclass(frozen=True, slots=True)
class LogEra:
    """
    The era of a log, and what shows it.

    :param era: the era.
    :param why: what shows it, in words.
    """

    era: Era
    why: str

    @classmethod
    def of(cls, told: ToldEra) -> LogEra:
        """Return the era that a document tells."""
        return cls(Era[told.name.name], told.why)

    def or_later(self, other: LogEra) -> LogEra:
        """Return the later of two; of two that are the same this one."""
        return other if other.era > self.era else self

    def why_not_written(self) -> str | None:
        """Return why nothing is written to the log or deleted by what it says, ``None`` where nothing stands against it."""
        if self.era is Era.PLAIN:
            return None
        return (
            f"the metadata topic is {self}. This version of the package reads such a topic and writes nothing: brokers of "
            "such a cluster write records with keys, and what a compacted topic does not say may have been said"
        )

    def told(self) -> ToldEra:
        """Return it as documents say it; what brokers have answered may be long there."""
        return ToldEra(EraName[self.era.name], self.why[:_MAX_TOLD])

    def __str__(self) -> str:
        return str(ToldEra(EraName[self.era.name], self.why))


WHAT_TO_DO = (
    "wait for a version that writes as these brokers do, and leave cleanup.policy as it is until it is known why it was "
    "changed"
)
"""What a person can do where :meth:`LogEra.why_not_written` says something."""

PLAIN_ERA = LogEra(
    Era.PLAIN, "no record that was read has a key that names what it says, and cleanup.policy does not name compact"
)


def policy_of(text: str) -> frozenset[str]:
    """
    Return the names in a topic's ``cleanup.policy``.

    :param text: as brokers give it; it may be empty.
    """
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def era_of_policy(policy: Iterable[str]) -> LogEra:
    """
    Return the era that a topic's configuration shows.

    :param policy: the names in its ``cleanup.policy``.
    """
    names = sorted(policy)
    return LogEra(Era.COMPACTED, f"its cleanup.policy is {','.join(names)}") if COMPACT in names else PLAIN_ERA


def not_known(error: EventLogAccessError) -> LogEra:
    """
    Return what is known of a log whose topic's configuration may not be described: nothing shows that it is compacted, and it
    says that no look was possible. A run that changes anything asks by itself and refuses.

    :param error: what the brokers said.
    """
    return LogEra(Era.PLAIN, f"whether it may be compacted is not known: {error}")


def era_of_records(metadata_partition: int, batch: pa.RecordBatch) -> LogEra:
    """
    Return the era that records show: one key that names what its record names shows that brokers write keys.

    A key that names something else, or nothing that is known, shows nothing: anybody may have written it.

    :param metadata_partition: where they lie.
    :param batch: as :meth:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader.read` yields it.
    """
    offset = keyed_offset(batch)
    return PLAIN_ERA if offset is None else era_of_key(metadata_partition, offset)


def era_of_key(metadata_partition: int, offset: int) -> LogEra:
    """
    Return the era that a record shows whose key names it.

    :param metadata_partition: where it lies.
    :param offset: its offset.
    """
    return LogEra(Era.KEYED, f"metadata partition {metadata_partition} has a record with a key at offset {offset}")


def keyed_offset(batch: pa.RecordBatch) -> int | None:
    """
    Return the offset of the first record with a key that names what the record names, ``None`` where no record has one.

    :param batch: with the columns ``offset``, ``key`` and ``value``.
    """
    keys = batch.column("key")
    if keys.null_count == batch.num_rows:
        return None
    keyed = batch.filter(keys.is_valid())
    columns = (keyed.column(name).to_pylist() for name in ("offset", "key", "value"))
    return next((offset for offset, key, value in zip(*columns, strict=True) if _names_its_record(key, value)), None)


def _names_its_record(raw: bytes, value: bytes | None) -> bool:
    key = parse_key(raw)
    if key is None:
        return False
    if value is None:
        # Compaction is the only use of such a record.
        return True
    try:
        return key.names(deserialize(value, keyed=True))
    except MalformedMetadataError:
        return False
