# SPDX-License-Identifier: Apache-2.0
"""
Where a place of a storage root lies, and the stamp that says whose it is.

Pure: no call is made here. A *place* is one prefix below the root at which copies of segments can lie. A *stamp* is a small
object beside the places, one per cluster and place, that says to which cluster the place belongs and where it lay when it was
written.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, Self
from urllib.parse import quote
from uuid import UUID

STAMP_FOLDER: Final = "airflow-provider-rlmm/"
"""Where the stamps of all clusters lie, below the root."""

OLD_STAMP_KEY: Final = "airflow-provider-rlmm.json"
"""The stamp of earlier versions. It names no location, so it verifies nothing; it is left where it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """
    One prefix below the storage root at which copies of segments can lie.

    :param name: names it in stamps, plans and reports; part of an object key.
    :param prefix: the prefix of its keys: empty, or ending in ``/``.
    """

    name: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Location:
    """
    Where a place lies. It holds no secret.

    :param scheme: kind of store: ``file``, ``s3``, ``gs``, ``az``, ``memory``.
    :param endpoint: the store's own address or account where it is not the kind's public one, else empty.
    :param bucket: bucket or container, empty for a local folder.
    :param prefix: path within it, of a local folder the absolute path; without a trailing ``/``.
    :param device: of a local folder what identifies its file system, ``None`` where nothing outlives a mount.
    :param inode: of a local folder its inode, ``None`` where it does not exist.
    """

    scheme: str
    endpoint: str = ""
    bucket: str = ""
    prefix: str = ""
    device: int | None = None
    inode: int | None = None

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
class Stamp:
    """
    What this package leaves beside a verified place.

    :param cluster_id: whose place it is.
    :param layout: name of the layout.
    :param place: name of the place.
    :param root_id: names this place for good; a moved stamp gets another one.
    :param where: where the place lay when the stamp was written.
    """

    cluster_id: str
    layout: str
    place: str
    root_id: str
    where: Location

    @property
    def key(self) -> str:
        """The object key at which it lies."""
        return stamp_key(self.cluster_id, self.place)

    def to_json(self) -> bytes:
        """Return the content of the object."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """
        Read the content of a stamp.

        :param raw: the content.
        :raises ValueError: if it is none.
        """
        try:
            fields = json.loads(raw)
            where = Location(**fields.pop("where"))
            stamp = cls(**fields, where=where)
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
    return f"{STAMP_FOLDER}{_quoted(cluster_id)}/{_quoted(place)}.json"


def is_stamp(key: str) -> bool:
    """
    Tell whether a key is that of a stamp, of any cluster and version.

    :param key: key below the root.
    """
    return key == OLD_STAMP_KEY or key.startswith(STAMP_FOLDER)


def _quoted(name: str) -> str:
    # A dot may walk a path, whatever quote() thinks of it.
    return quote(name, safe="").replace(".", "%2E")
