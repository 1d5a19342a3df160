# SPDX-License-Identifier: Apache-2.0
"""
Storage classes of S3, Google Cloud Storage and Azure: for how long, and as how large, an object is paid for at least.

What a store asks for a byte or a request differs by region and contract, so a person says it; these minimums do not. Requests
that delete are free in all three: S3 (https://aws.amazon.com/s3/pricing/), Google Cloud Storage
(https://cloud.google.com/storage/pricing#operations-by-class) and Azure
(https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.values import refused

_S3: Final = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html#sc-compare"
_GCS: Final = "https://cloud.google.com/storage/docs/storage-classes"
_AZURE: Final = "https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class KnownClass:
    """What the service documents of a storage class."""

    min_days: int  # for how many days an object is paid for at least, 0 for no minimum
    min_object_bytes: int  # as how large an object is paid for at least
    list_page: int  # objects of a page of a listing, at most
    source: str  # where the service says so


def _s3(min_days: int, kibibytes: int) -> KnownClass:
    return KnownClass(min_days, kibibytes * 1024, 1_000, _S3)


def _gcs(min_days: int) -> KnownClass:
    return KnownClass(min_days, 0, 1_000, _GCS)


def _azure(min_days: int) -> KnownClass:
    return KnownClass(min_days, 0, 5_000, _AZURE)


KNOWN_CLASSES: Final[Mapping[str, KnownClass]] = {
    "STANDARD": _s3(0, 0),  # of Google Cloud Storage, too, with the same minimums
    "REDUCED_REDUNDANCY": _s3(0, 0),
    "INTELLIGENT_TIERING": _s3(0, 0),
    "STANDARD_IA": _s3(30, 128),
    "ONEZONE_IA": _s3(30, 128),
    "GLACIER_IR": _s3(90, 128),
    "GLACIER": _s3(90, 40),
    "DEEP_ARCHIVE": _s3(180, 40),
    "NEARLINE": _gcs(30),
    "COLDLINE": _gcs(90),
    "ARCHIVE": _gcs(365),
    "Hot": _azure(0),
    "Cool": _azure(30),
    "Cold": _azure(90),
    "Archive": _azure(180),
}
"""Name as the store has it → what its service documents. Capitals count: ``ARCHIVE`` is Google's, ``Archive`` Azure's."""

ARCHIVE_TIERS: Final = frozenset({"GLACIER", "DEEP_ARCHIVE", "ARCHIVE", "Archive"})
"""Classes whose objects have to be restored before they can be read; of Google Cloud Storage those that cost most to read."""


def check_name(setting: str, name: str) -> None:
    """
    Refuse what names no storage class, or one that is known in other capitals. Stores that are not known may have any.

    :param setting: for the error.
    :param name: of a storage class.
    :raises ConfigurationError: naming the setting.
    """
    if not _NAME.fullmatch(name):
        raise refused(setting, name, "a storage class, named as the store names it, such as STANDARD_IA")
    alike = [known for known in KNOWN_CLASSES if known.casefold() == name.casefold()]
    if alike and name not in alike:
        raise refused(setting, name, f"{' or '.join(alike)}, in capitals as the store has it")
