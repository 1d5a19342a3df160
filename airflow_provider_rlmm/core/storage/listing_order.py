# SPDX-License-Identifier: Apache-2.0
"""
Where a listing may end before the end of its folder.

A listing that is ended early shows what is there. It shows what is not there only where a store lists by key, and says so:
on an S3 bucket of AWS, on Google Cloud Storage, and in an account of Azure without a hierarchical namespace. A key below the
one before it ends that trust for as long as the storage is open, and what had been looked for in this way is looked for
again. Every other store lists each folder to its end where something is to be absent. Pure: no call is made here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from airflow_provider_rlmm.core.storage.deletion import Lookup
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location

logger = logging.getLogger(__name__)

DOCUMENTED: Final[Mapping[str, str]] = {
    "s3": "https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html",
    "gs": "https://cloud.google.com/storage/docs/json_api/v1/objects/list",
    "az": "https://learn.microsoft.com/dotnet/api/azure.storage.blobs.blobcontainerclient.getblobsasync",
}
"""Scheme of a store at its service's own address → where the service says that it lists by key."""

ONLY_FLAT: Final = frozenset({"az"})
"""
Schemes of which that is true only where the store is flat: accounts of Azure with a hierarchical namespace list by folders.

See https://github.com/Azure/azure-sdk-for-go/issues/24210. There, and in Microsoft Fabric, where a listing begins is no
matter of keys either: a key that is no object's has hidden objects behind it
(https://github.com/apache/arrow-rs-object-store/issues/695), which deletion would have taken for gone.
"""

_ALIASES: Final = ("s3alias", "--op-s3", "--ol-s3", ".mrap")
"""How names end that lead to something else than a general purpose bucket of S3, or may."""

_LAST: Final = chr(0x10FFFF)
"""What sorts behind every character of a key."""


def lists_by_key(location: Location, layout: Layout) -> bool:
    """
    Tell whether the order of a store's listings is documented.

    :param location: of the storage root; one with an address of its own may be any server.
    :param layout: where each segment has a folder of its own, keys of one segment may lie apart.
    """
    return (
        location.scheme in DOCUMENTED
        and not _has_address_of_its_own(location)
        and not location.bucket.endswith(_ALIASES)
        and not any(suffix.startswith("/") for suffix in layout.suffixes)
    )


def _has_address_of_its_own(location: Location) -> bool:
    # Azure's accounts are part of where a root lies, with or without an address.
    return "://" in location.endpoint if location.scheme == "az" else bool(location.endpoint)


class ListingOrder:
    """
    Whether the listings of a store are believed to come in the order of their keys; threads may watch one each.

    :param documented: whether :func:`lists_by_key`.
    :param begins_by_key: whether a listing that is to begin behind a key leaves out nothing but keys up to it, in
        any order.
    """

    def __init__(self, documented: bool, begins_by_key: bool = True) -> None:
        self.is_trusted = documented
        self._begins_by_key = begins_by_key

    @property
    def begins_by_key(self) -> bool:
        """Whether a listing may begin behind a key."""
        return self.is_trusted or self._begins_by_key

    def start(self, before: str) -> str | None:
        """
        Return behind which key a listing may begin, ``None`` where it has to begin with its folder.

        :param before: a key before all that is looked for; there need be no such object.
        """
        return before if self.begins_by_key else None

    def watched(self, objects: Iterable[StoredObject]) -> Iterator[StoredObject]:
        """
        Yield the objects of a listing, and trust the order no longer once a key comes below the one before it.

        :param objects: as the store lists them.
        """
        before = ""
        for stored in objects:
            if stored.key < before and self.is_trusted:
                logger.warning(
                    "The store lists %r behind %r, although its service lists by key: from here on every listing goes to the "
                    "end of its folder",
                    stored.key,
                    before,
                )
                self.is_trusted = False
            before = stored.key
            yield stored

    def wanted(
        self, lookup: Lookup, objects: Iterable[StoredObject], *, to_the_end: bool, only_seen: bool = False
    ) -> Iterator[StoredObject]:
        """
        Yield what a listing shows of some segments, and end it where nothing of them can follow.

        :param lookup: of which objects.
        :param objects: what a store lists from before the first of them on.
        :param to_the_end: whether what is not yielded has to be absent; if not, it suffices that each segment was seen.
        :param only_seen: whether nothing is concluded from what is not yielded, so that it ends behind the last of them.
        """
        stems = frozenset(lookup.stems)
        lengths = sorted({len(stem) for stem in stems}, reverse=True)
        behind, unseen = max(stem + _LAST for stem in stems), set(stems)
        for stored in self.watched(objects):
            key = stored.key
            if key > behind and (only_seen or self.is_trusted or not (to_the_end or unseen)):
                return
            if (stem := next((key[:n] for n in lengths if key[:n] in stems), None)) is not None:
                unseen.discard(stem)
                yield stored
