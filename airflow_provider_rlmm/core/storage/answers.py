# SPDX-License-Identifier: Apache-2.0
"""
What the texts of obstore's errors tell about a store's answer.

obstore 0.12 has classes for a few answers only; a throttled request and a refused connection are the same
``GenericError``. Its texts hold the HTTP status, the code of a refused object in an answer to a bulk deletion (all of the
answer where S3 says SlowDown or InternalError of one: obstore has tried again by then), and what the HTTP client says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import unescape

from airflow_provider_rlmm.core.base.local_writing import FULL_ERRNOS

_STATUS: Final = re.compile(r"status code: (\d{3})\b")
_OBJECT_CODE: Final = re.compile(r"\(code: (\w+)\)|<Code>(\w+)</Code>")
_REFUSED_KEY: Final = re.compile(r"<Error>\s*<Key>(.*?)</Key>", re.DOTALL)
_BUSY_STATUSES: Final = frozenset({"408", "429", "502", "503", "504"})
_BUSY_CODES: Final = frozenset(
    {
        "SlowDown", "ServiceUnavailable", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests",
        "ServerBusy", "OperationTimedOut", *_BUSY_STATUSES,
    }
)  # fmt: skip
"""
Codes of S3 and of those who speak its language, and of Azure, for what passes by itself. An internal error (500) is none:
obstore has tried three times more, and what fails for ever must not stay green.
"""

_FULL: Final = re.compile(rf"\(os error ({'|'.join(map(str, FULL_ERRNOS))})\)")
_FULL_CODES: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "AccountQuotaExceeded"})  # of Ceph, MinIO, Azure

_RENEW: Final = "log in again, or use credentials that are renewed"
_MEND_LOGIN: Final = "look at the access key and its secret"
_MEND_REGION: Final = "set the bucket's own region and endpoint"
_MEND_CLOCK: Final = "set this machine's clock: the store's is too far away from it"
_REMEDIES: Final = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"), _RENEW),
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed"), _MEND_LOGIN),
    **dict.fromkeys(
        ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"), _MEND_REGION
    ),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestExpired"), _MEND_CLOCK),
}
"""Codes of S3 and of Azure for what is wrong with who asks, or where: with any HTTP status, that does not pass."""

_REDIRECT: Final = "Received redirect without LOCATION"
"""What obstore says of a 301 whose answer names no address, as S3's for a bucket of another region does."""

_ARCHIVED_CODES: Final = frozenset({"InvalidObjectState", "BlobArchived", "BlobBeingRehydrated"})  # of S3, of Azure
_ARCHIVED_WORDS: Final = "not permitted on an archived blob"  # of Azure, where obstore hands on the words only

_NOT_DONE_HERE: Final = frozenset({"NotImplemented", "MethodNotAllowed"})

_NO_NAME: Final = "Encountered object with invalid path"
_RENAME: Final = (
    "its key has a part that is empty or a dot, which nothing here can name: delete or rename it by the console or the "
    "command of the store, such as aws s3 mv"
)
"""What helps against a key such as ``a//b``: it ends every listing that would name it, and that does not pass by itself."""

_MEND_BLOB: Final = {
    "has snapshots": "delete its snapshots by 'az storage blob delete --delete-snapshots only'",
    "blob is immutable": "a legal hold or an immutability policy of its container has to end first",
}
"""
What Azure says in words where it refuses to delete a blob → what helps; obstore hands on the status and these words.

See https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes.
"""

_NO_ANSWER: Final = (
    "error sending request",
    "operation timed out",
    "connection closed",
    "error decoding response body",
)


def status_of(text: str) -> str:
    """Return the HTTP status of a store's answer; empty where the error names none."""
    found = _STATUS.search(text)
    return found[1] if found else ""


def is_busy(text: str) -> bool:
    """Tell whether a store throttles or does not answer, so that the same request may succeed later."""
    if status := status_of(text):
        return status in _BUSY_STATUSES
    codes = {code or in_body for code, in_body in _OBJECT_CODE.findall(text)}
    return not codes.isdisjoint(_BUSY_CODES) if codes else any(words in text for words in _NO_ANSWER)


def knows_no_bulk_deletion(text: str) -> bool:
    """Tell whether a store says of a request to delete many objects that it knows no such thing."""
    codes = {code or in_body for code, in_body in _OBJECT_CODE.findall(text)}
    return status_of(text) in {"405", "501"} or not codes.isdisjoint(_NOT_DONE_HERE)


def is_full(text: str) -> bool:
    """Tell whether a store has no room left, so that a person must make some."""
    codes = {code or in_body for code, in_body in _OBJECT_CODE.findall(text)}
    return status_of(text) == "507" or _FULL.search(text) is not None or not codes.isdisjoint(_FULL_CODES)


def is_archived(text: str) -> bool:
    """Tell whether a store says that an object lies in an archive tier and must be restored before it can be read."""
    codes = {code or in_body for code, in_body in _OBJECT_CODE.findall(text)}
    return not codes.isdisjoint(_ARCHIVED_CODES) or _ARCHIVED_WORDS in text


def remedy_of(text: str) -> str | None:
    """
    Return what helps where a store says that login, clock or region are wrong, or an object's key cannot be named.

    :param text: of the error.
    :return: ``None`` where it says something else.
    """
    codes = (code or in_body for code, in_body in _OBJECT_CODE.findall(text))
    found = next((_REMEDIES[code] for code in codes if code in _REMEDIES), None)
    if found is None and _NO_NAME in text:
        return _RENAME
    return _MEND_REGION if found is None and _REDIRECT in text else found


def blob_remedy_of(text: str) -> str | None:
    """
    Return what helps where Azure refuses to delete a blob for what its owner has set.

    :param text: of the error.
    :return: ``None`` where it says something else.
    """
    return next((remedy for words, remedy in _MEND_BLOB.items() if words in text), None)


def key_of_refusal(text: str, keys: Sequence[str]) -> str | None:
    """
    Return the object that a refused bulk deletion names: the store has tried all others of the request.

    :param text: of the error; it names the object below the bucket.
    :param keys: of the request, below the storage root.
    :return: ``None`` where it names none of them.
    """
    _, _, rest = text.partition("request failed for key ")
    if named := next((key for key in keys if f"{key}: " in rest), None):
        return named
    refused = tuple(map(unescape, _REFUSED_KEY.findall(text)))
    return next((key for key in keys if any(full.endswith(key) for full in refused)), None)
