# SPDX-License-Identifier: Apache-2.0
"""What this package leaves beside the places of a storage root, and where a place lies. Pure: no call is made here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import quote, unquote
from uuid import UUID

from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid

STAMP_FOLDER: Final = "airflow-provider-rlmm/"
"""Where the stamps of all clusters lie, below the root."""

OLD_STAMP_KEY: Final = "airflow-provider-rlmm.json"
"""The stamp of earlier versions. It names no location, so it verifies nothing; it is left where it is."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a place lies. It holds no secret."""

    scheme: str  # kind of store: ``file``, ``s3``, ``gs``, ``az``, ``memory``
    endpoint: str = ""  # the store's own address or account where it is not the kind's public one, else empty
    bucket: str = ""  # bucket or container, empty for a local folder
    prefix: str = ""  # path within it, of a local folder the absolute path; without a trailing ``/``
    # Of a local folder what identifies its file system, ``None`` where nothing outlives a mount.
    device: int | None = None
    inode: int | None = None  # of a local folder its inode, ``None`` where it does not exist

    @property
    def exists(self) -> bool:
        """Whether it is there; of a bucket that is for a listing to tell."""
        return self.scheme != "file" or self.inode is not None

    def __str__(self) -> str:
        """Return the location as one word, as ``expected_root`` may name it."""
        path = "/".join(part for part in (self.bucket, quote(self.prefix.strip("/"))) if part)
        local = {"device": self.device, "inode": self.inode} if self.scheme == "file" else {}
        extra = {"endpoint": quote(self.endpoint, safe=":/") or None, **local}
        query = "&".join(f"{name}={value}" for name, value in extra.items() if value is not None)
        return f"{self.scheme}://{'/' if self.scheme == 'file' else ''}{path}{query and '?' + query}"


@dataclass(frozen=True, slots=True)
class FormerMetadataTopic:
    """A metadata topic with which runs had worked before it was deleted and made anew."""

    topic_id: UUID  # its id
    by: str  # who has confirmed that another one took its place
    at_ms: int  # when, ms since the epoch


@dataclass(frozen=True, slots=True)
class Stamp:
    """What this package leaves beside a verified place."""

    cluster_id: str  # whose place it is
    layout: str  # name of the layout
    place: str  # name of the place
    root_id: str  # names this place for good; a moved stamp gets another one
    where: Location  # where the place lay when the stamp was written
    # With which metadata topic runs have worked on it; ``None`` in stamps of earlier versions.
    metadata_topic_id: UUID | None = field(default=None, compare=False)
    former_metadata_topics: tuple[FormerMetadataTopic, ...] = field(default=(), compare=False)  # the oldest first

    @property
    def key(self) -> str:
        """The object key at which it lies."""
        return stamp_key(self.cluster_id, self.place)

    def to_json(self) -> bytes:
        """Return the content of the object; what is not known is left out, as earlier versions know no such key."""
        fields: dict[str, Any] = asdict(self)
        topic_id, former = fields.pop("metadata_topic_id"), fields.pop("former_metadata_topics")
        if topic_id is not None:
            fields["metadata_topic_id"] = kafka_uuid_str(topic_id)
        if former:
            fields["former_metadata_topics"] = [
                {**topic, "topic_id": kafka_uuid_str(topic["topic_id"])} for topic in former
            ]
        return json.dumps(fields, sort_keys=True).encode()

    def naming(self, topic_id: UUID) -> Self:
        """Return the stamp as it names a metadata topic."""
        return replace(self, metadata_topic_id=topic_id)

    def confirmed(self, topic_id: UUID, by: str, at_ms: int) -> Self:
        """
        Return the stamp as it names another metadata topic than before, which stays on record.

        :param topic_id: id of the new one.
        :param by: who has confirmed that it took the place of the old one.
        :param at_ms: when, ms since the epoch.
        """
        old = self.metadata_topic_id
        former = () if old is None else (FormerMetadataTopic(old, by, at_ms),)
        return replace(self.naming(topic_id), former_metadata_topics=(*self.former_metadata_topics, *former))

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """
        Read the content of a stamp.

        :raises ValueError: if it is none.
        """
        try:
            fields = json.loads(raw)
            where = Location(**fields.pop("where"))
            named, topics = fields.pop("metadata_topic_id", None), fields.pop("former_metadata_topics", ())
            topic_id = None if named is None else parse_kafka_uuid(named)
            former = tuple(FormerMetadataTopic(parse_kafka_uuid(t["topic_id"]), t["by"], t["at_ms"]) for t in topics)
            stamp = cls(**fields, where=where, metadata_topic_id=topic_id, former_metadata_topics=former)
            UUID(stamp.root_id)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise ValueError(f"no stamp: {type(e).__name__}") from e
        return stamp


def stamp_key(cluster_id: str, place: str) -> str:
    """
    Return the key of the stamp of a cluster and place.

    :param cluster_id: the cluster.
    :param place: name of the place.
    """
    # A dot may walk a path, though quote() lets it pass.
    quoted = (quote(name, safe="").replace(".", "%2E") for name in (cluster_id, place))
    return f"{STAMP_FOLDER}{'/'.join(quoted)}.json"


def cluster_in(key: str) -> str | None:
    """
    Return the cluster whose stamp a key is, ``None`` for any other key.

    :param key: key below the root.
    """
    folder, _, name = key.removeprefix(STAMP_FOLDER).partition("/")
    cluster_id, place = unquote(folder), unquote(name.removesuffix(".json"))
    return cluster_id if cluster_id and key == stamp_key(cluster_id, place) else None


def is_stamp(key: str) -> bool:
    """
    Tell whether a key is that of a stamp, of any cluster and version.

    :param key: key below the root.
    """
    return key == OLD_STAMP_KEY or key.startswith(STAMP_FOLDER)
