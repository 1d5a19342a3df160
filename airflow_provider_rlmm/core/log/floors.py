# SPDX-License-Identifier: Apache-2.0
"""
What runs of a work folder have read of the metadata topic, one file per metadata partition and end, never changed.

The highest one counts. Where a person has confirmed that a metadata partition has lost records, a file beside says so, and
floors count from then on as the next generation: lower ends are right again. Where records were seen to have keys, or the
topic to be compacted, a file says that as well.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError, FloorError
from airflow_provider_rlmm.core.base.file_systems import create_file, list_files, read_file, remove_file, replace_file
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era, LogEra
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, LostRecords

FLOORS_FOLDER = "floors"
"""Folder of floors and confirmations, in the folder of a cluster."""

TOPIC_DOCUMENT = "metadata-topic.json"
"""Document in the folder of a cluster: the id of the metadata topic that runs have worked with."""

_MAX_BYTES = 64 * 1024
_WRONG = (OSError, ConfigurationError)
_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FLOOR = re.compile(rf"({_ID})\.(\d+)\.(\d+)\.(\d+)\.([0-9a-f]{{64}})\.floor\.json")
_CONFIRMED = re.compile(rf"({_ID})\.(\d+)\.(\d+)\.confirmed\.json")
_GAP = re.compile(rf"({_ID})\.(\d+)\.(\d+)-(\d+)\.gap\.json")
_ERA = re.compile(rf"({_ID})\.(\d)\.[0-9a-f]{{64}}\.era\.json")


@dataclass(frozen=True, slots=True)
class Floor:
    """
    The last records that a run has read of a metadata partition.

    :param topic_id: of the metadata topic.
    :param metadata_partition: which one.
    :param generation: how many losses of the metadata partition had been confirmed: only the latest generation counts.
    :param records: offset and SHA-256 of the last records, by offset; at least one.
    """

    topic_id: UUID
    metadata_partition: int
    generation: int
    records: tuple[tuple[int, bytes], ...]

    @property
    def first(self) -> int:
        """Offset of the first of the records, inclusive."""
        return self.records[0][0]

    @property
    def end(self) -> int:
        """Offset up to which was read, exclusive."""
        return self.records[-1][0] + 1

    @property
    def sha256(self) -> str:
        """Of all of the records, lower-case hex."""
        return hashlib.sha256(repr(self.records).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ConfirmedLoss:
    """
    A person's word that a metadata partition has lost records.

    :param topic_id: of the metadata topic.
    :param metadata_partition: which one.
    :param generation: of the floor that did not fit any more; the next one counts from then on.
    :param read_until: the end of that floor, exclusive.
    :param end: offset at which the log ended then, exclusive.
    :param at_ms: when, ms since the epoch.
    :param by: who.
    """

    topic_id: UUID
    metadata_partition: int
    generation: int
    read_until: int
    end: int
    at_ms: int
    by: str

    def as_lost(self) -> LostRecords:
        """Return it as readers of the log are told of it."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at_ms / 1000))
        return LostRecords(self.metadata_partition, self.read_until, self.end, f"on {when} by {self.by}")


@dataclass(frozen=True, slots=True)
class ExplainedGap:
    """
    A person's word why offsets of a metadata partition hold no record.

    :param topic_id: of the metadata topic.
    :param gap: the offsets.
    :param cause: why, in words.
    :param at_ms: when that was said, ms since the epoch.
    :param by: who.
    """

    topic_id: UUID
    gap: HistoryGap
    cause: str
    at_ms: int
    by: str

    def __str__(self) -> str:
        return f"{self.gap.name} holds no record, says {self.by}: {self.cause}"


class FloorStore(Protocol):
    """Where runs of a work folder remember floors, and what was confirmed."""

    def floors(self, topic_id: UUID) -> list[Floor]:
        """
        Return of each metadata partition the floors with the highest end of the latest generation; of two runs each may have
        left one.

        :param topic_id: of the metadata topic.
        :raises FloorError: if they cannot be read.
        """

    def confirmed(self, topic_id: UUID) -> list[ConfirmedLoss]:
        """
        Return the losses that were confirmed, by generation.

        :param topic_id: of the metadata topic.
        :raises FloorError: if they cannot be read.
        """

    def explained(self, topic_id: UUID) -> list[HistoryGap]:
        """
        Return the offsets that hold no record and of which a person has said why, by metadata partition.

        :param topic_id: of the metadata topic.
        :raises FloorError: if they cannot be read.
        """

    def explain(self, word: ExplainedGap) -> None:
        """
        Remember why offsets hold no record.

        :param word: who said what.
        :raises FloorError: if that cannot be done.
        """

    def era(self, topic_id: UUID) -> LogEra:
        """
        Return the latest era in which the metadata topic was seen.

        :param topic_id: its id.
        :raises FloorError: if it cannot be read.
        """

    def keep(self, floor: Floor) -> None:
        """
        Remember a floor.

        :param floor: what was read.
        :raises FloorError: if that cannot be done.
        """

    def keep_era(self, topic_id: UUID, era: LogEra) -> None:
        """
        Remember the era in which the metadata topic was seen; an earlier one that is remembered stays, and does not count.

        :param topic_id: its id.
        :param era: the era.
        :raises FloorError: if that cannot be done.
        """

    def confirm(self, loss: ConfirmedLoss) -> None:
        """
        Remember that a loss was confirmed; of two who do so at once one fails.

        :param loss: what was confirmed.
        :raises FloorError: if that cannot be done.
        """


class _FloorName(NamedTuple):
    """What the name of a floor's file says."""

    topic_id: str
    metadata_partition: int
    generation: int
    end: int
    sha256: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self))}.floor.json"


@dataclass(frozen=True, slots=True)
class FloorFiles:
    """
    A :class:`FloorStore` of files.

    :param cluster_uri: the folder of what runs remember of the cluster.
    """

    cluster_uri: str

    def floors(self, topic_id: UUID) -> list[Floor]:
        """See :class:`FloorStore`."""
        names = self._counting(topic_id)
        while True:
            try:
                return [self._floor(name) for name in names]
            except FloorError as e:
                # The last task of another run may have removed it since it was listed, as there is a higher one now.
                before, names = names, self._counting(topic_id)
                if not isinstance(e.__cause__, FileNotFoundError) or names == before:
                    raise

    def _counting(self, topic_id: UUID) -> list[_FloorName]:
        return [name for name in _highest(self._names()) if name.topic_id == str(topic_id)]

    def confirmed(self, topic_id: UUID) -> list[ConfirmedLoss]:
        """See :class:`FloorStore`."""
        found = (self._confirmed(m[0]) for m in self._of_topic(_CONFIRMED, topic_id))
        return sorted(found, key=lambda loss: loss.generation)

    def explained(self, topic_id: UUID) -> list[HistoryGap]:
        """See :class:`FloorStore`; the names of the files say it, what is in them is for people."""
        found = (HistoryGap(*map(int, m.groups()[1:])) for m in self._of_topic(_GAP, topic_id))
        return sorted(found, key=lambda gap: gap.metadata_partition)

    def explain(self, word: ExplainedGap) -> None:
        """See :class:`FloorStore`."""
        gap = word.gap
        said = {"cause": word.cause, "at_ms": word.at_ms, "by": word.by}
        self._create(f"{word.topic_id}.{gap.metadata_partition}.{gap.start}-{gap.end}.gap.json", said)

    def era(self, topic_id: UUID) -> LogEra:
        """See :class:`FloorStore`."""
        found = PLAIN_ERA
        for m in self._of_topic(_ERA, topic_id):
            found = found.or_later(self._era(m[0], int(m[2])))
        return found

    def keep_era(self, topic_id: UUID, era: LogEra) -> None:
        """See :class:`FloorStore`."""
        digest = hashlib.sha256(era.why.encode()).hexdigest()
        self._create(f"{topic_id}.{era.era:d}.{digest}.era.json", {"why": era.why})

    def keep(self, floor: Floor) -> None:
        """See :class:`FloorStore`."""
        name = _FloorName(str(floor.topic_id), floor.metadata_partition, floor.generation, floor.end, floor.sha256)
        self._create(str(name), {"records": [[offset, digest.hex()] for offset, digest in floor.records]})

    def confirm(self, loss: ConfirmedLoss) -> None:
        """See :class:`FloorStore`."""
        said = {"read_until": loss.read_until, "end": loss.end, "at_ms": loss.at_ms, "by": loss.by}
        self._create(f"{loss.topic_id}.{loss.metadata_partition}.{loss.generation}.confirmed.json", said)

    def metadata_topic_id(self) -> UUID | None:
        """
        Return the id of the metadata topic that runs have worked with, ``None`` where none has yet.

        :raises FloorError: if it cannot be read.
        """
        name = f"{self.cluster_uri}/{TOPIC_DOCUMENT}"
        try:
            return UUID(json.loads(bytes(read_file(name, _MAX_BYTES)))["metadata_topic_id"])
        except FileNotFoundError:
            return None
        except (*_WRONG, ValueError, TypeError, LookupError) as e:
            raise FloorError(
                f"{name} cannot be read: {e}; it says with which metadata topic runs have worked: restore it, or, once you "
                "know that the topic is the same, remove it"
            ) from e

    def record_metadata_topic(self, topic_id: UUID, by: str, at_ms: int) -> None:
        """
        Remember the metadata topic that runs work with, in the place of another one.

        :param topic_id: its id.
        :param by: who runs, or has confirmed it.
        :param at_ms: when, ms since the epoch.
        :raises FloorError: if that cannot be done.
        """
        name = f"{self.cluster_uri}/{TOPIC_DOCUMENT}"
        document = {"metadata_topic_id": str(topic_id), "by": by, "at_ms": at_ms}
        try:
            replace_file(name, [json.dumps(document, sort_keys=True).encode()])
        except _WRONG as e:
            raise FloorError(f"{name} cannot be written: {e}; give the run a work folder that can be written to") from e

    def prune(self) -> int:
        """
        Remove the floors that do not count any more; return how many.

        :raises FloorError: if the folder cannot be listed, or a file not be removed.
        """
        names = self._names()
        counting = {str(name) for name in _highest(names)}
        old = [name for name in names if _FLOOR.fullmatch(name) and name not in counting]
        try:
            for name in old:
                remove_file(f"{self._uri}/{name}")
        except _WRONG as e:
            raise FloorError(f"{self._uri}/{name} cannot be removed: {e}") from e
        return len(old)

    @property
    def _uri(self) -> str:
        return f"{self.cluster_uri}/{FLOORS_FOLDER}"

    def _names(self) -> list[str]:
        try:
            return list_files(self._uri)
        except _WRONG as e:
            raise FloorError(
                f"{self._uri} cannot be listed: {e}; it holds what earlier runs have read of the log"
            ) from e

    def _of_topic(self, pattern: re.Pattern[str], topic_id: UUID) -> list[re.Match[str]]:
        """Return the names of one kind of a metadata topic, whose id is their first part."""
        return [m for name in self._names() if (m := pattern.fullmatch(name)) and m[1] == str(topic_id)]

    def _create(self, name: str, document: dict[str, Any]) -> None:
        try:
            create_file(f"{self._uri}/{name}", [json.dumps(document, sort_keys=True).encode()])
        except _WRONG as e:
            raise FloorError(
                f"{self._uri}/{name} cannot be written: {e}; a real run remembers what it has read of the log before it "
                "changes anything: give it a work folder that can be written to"
            ) from e

    def _read(self, name: str) -> Any:
        try:
            return json.loads(bytes(read_file(f"{self._uri}/{name}", _MAX_BYTES)))
        except (*_WRONG, ValueError) as e:
            raise self._damaged(name, e) from e

    def _damaged(self, name: str, why: Exception) -> FloorError:
        return FloorError(
            f"{self._uri}/{name} cannot be read: {why}; it says what earlier runs have read of the log: restore it, or, once "
            "you know that the metadata topic has lost nothing, remove it"
        )

    def _floor(self, name: _FloorName) -> Floor:
        document = self._read(str(name))
        try:
            records = tuple((int(offset), bytes.fromhex(digest)) for offset, digest in document["records"])
            floor = Floor(UUID(name.topic_id), name.metadata_partition, name.generation, records)
            if (floor.end, floor.sha256) != (name.end, name.sha256):
                raise ValueError("it does not hold what its name says")
        except (ValueError, TypeError, LookupError) as e:
            raise self._damaged(str(name), e) from e
        return floor

    def _era(self, name: str, number: int) -> LogEra:
        document = self._read(name)
        try:
            return LogEra(Era(number), f"{document['why']}, as an earlier run has seen")
        except (ValueError, TypeError, LookupError) as e:
            raise self._damaged(name, e) from e

    def _confirmed(self, name: str) -> ConfirmedLoss:
        document = self._read(name)
        try:
            topic_id, number, generation = name.split(".")[:3]
            return ConfirmedLoss(
                UUID(topic_id), int(number), int(generation), int(document["read_until"]), int(document["end"]),
                int(document["at_ms"]), str(document["by"]),
            )  # fmt: skip
        except (ValueError, TypeError, LookupError) as e:
            raise self._damaged(name, e) from e


def _highest(names: Sequence[str]) -> Iterator[_FloorName]:
    """Yield the floors that count: of each metadata partition those of the latest generation with the highest end."""
    confirmed: dict[tuple[str, int], int] = {}
    for name in names:
        if m := _CONFIRMED.fullmatch(name):
            place = m[1], int(m[2])
            confirmed[place] = max(confirmed.get(place, 0), int(m[3]) + 1)
    found: dict[tuple[str, int], list[_FloorName]] = {}
    for name in names:
        if m := _FLOOR.fullmatch(name):
            floor = _FloorName(m[1], int(m[2]), int(m[3]), int(m[4]), m[5])
            found.setdefault(floor[:2], []).append(floor)
    for place, floors in sorted(found.items()):
        latest = max(confirmed.get(place, 0), *(floor.generation for floor in floors))
        of_now = [floor for floor in floors if floor.generation == latest]
        end = max((floor.end for floor in of_now), default=0)
        yield from (floor for floor in of_now if floor.end == end)
