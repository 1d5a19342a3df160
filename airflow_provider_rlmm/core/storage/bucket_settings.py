# SPDX-License-Identifier: Apache-2.0
"""
What the settings of a bucket say about deletion, read through a client of the vendor's library.

obstore reads no settings. Each inspector is given a function that returns a client, opened by a connection or by the login of
the machine, and makes a few calls; what it may not read it says. Texts of servers are left out, codes and classes are enough.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RlmmError, StorageUnavailableError
from airflow_provider_rlmm.core.storage.hidden_copies import EXPIRE_RULES, DeletionEffect, Freed

_PROBLEM: Final = "problem"
_DAY_S: Final = 86_400

BOUNDED_CALLS: Final[Mapping[str, Any]] = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 2}}
"""Settings of a botocore client in seconds and tries: by default it asks an address that does not answer for minutes."""

_RIGHTS: Final[Mapping[str, str]] = {
    "get_bucket_versioning": "s3:GetBucketVersioning",
    "get_bucket_lifecycle_configuration": "s3:GetLifecycleConfiguration",
    "get_object_lock_configuration": "s3:GetBucketObjectLockConfiguration",
}
_REFUSED: Final = frozenset({"AccessDenied", "403", "Forbidden"})

MFA_DELETE: Final = (
    "switch MFA delete off and set a lifecycle rule with NoncurrentVersionExpiration, or delete versions by hand"
)
"""What frees versions where no rule can."""

_OBJECTS_LOOKED_AT: Final = 1_000
"""Below each prefix: what Google lists in one page at most."""

_KEPT_BY_GOOGLE: Final = (
    "Google Cloud Storage refuses to delete objects that are younger than {days} days, by the retention policy of bucket "
    "{name}: wait, or have a policy that is not locked removed by 'gcloud storage buckets update gs://{name} "
    "--clear-retention-period'"
)
_RELEASE: Final = (
    "have that ended by 'gcloud storage buckets update gs://{name} --no-default-event-based-hold', and objects released by "
    "'gcloud storage objects update --no-event-based-hold'"
)


class S3BucketInspector:
    """
    A :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector` on botocore.

    It needs s3:GetBucketVersioning, s3:GetLifecycleConfiguration and s3:GetBucketObjectLockConfiguration.

    :param client: returns botocore's or boto3's S3 client; what it raises of this package is told.
    :param bucket: the bucket.
    :param root: prefix of the storage root in the bucket.
    """

    tells_versions: bool = True

    def __init__(self, client: Callable[[], Any], bucket: str, root: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._root = as_prefix(root)

    def look(self, prefixes: Sequence[str]) -> DeletionEffect:
        """See :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector`."""
        with _without_debug("botocore"):
            return self._look(prefixes)

    def is_flat(self) -> bool:
        """See :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector`; buckets have none."""
        return True

    def _look(self, prefixes: Sequence[str]) -> DeletionEffect:
        try:
            client = self._client()
        except RlmmError as e:
            return DeletionEffect(Freed.UNKNOWN, f"the bucket's settings cannot be read: {e}")
        except Exception as e:
            # Of any class of the provider's or botocore's.
            return DeletionEffect(Freed.UNKNOWN, f"the bucket's settings cannot be read: {type(e).__name__}")
        below = [self._root + prefix for prefix in prefixes]
        lifecycle = self._ask(client, "get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration")
        rules = lifecycle.get("Rules", ())
        uploads = _uploads_in_words(_days(rules, below, _abort_days), lifecycle.get(_PROBLEM))
        client.meta.events.register("after-call.s3.GetBucketVersioning", _refuse_listing, "rlmm-listing")
        versioning = self._ask(client, "get_bucket_versioning")
        if problem := versioning.get(_PROBLEM):
            return DeletionEffect(Freed.UNKNOWN, f"bucket {self._bucket}: {problem}", uploads=uploads)
        # A suspended bucket keeps the versions that it has.
        status = versioning.get("Status")
        if status is None:
            return DeletionEffect(Freed.AT_ONCE, f"bucket {self._bucket} has never kept versions", uploads=uploads)
        why = f"versioning of bucket {self._bucket} is {status.lower()}"
        lock = self._ask(client, "get_object_lock_configuration", "ObjectLockConfigurationNotFoundError")
        locked = _lock_days(lock)
        if locked:
            why += f", and object lock keeps each version for {number_of(locked, 'day')}"
        if problem := lock.get(_PROBLEM):
            why += f", and whether object lock keeps versions for longer is not known ({problem})"
        if versioning.get("MFADelete") == "Enabled":
            # S3 takes no lifecycle rules there.
            why += " with MFA delete, under which only a person with a token deletes a version"
            return DeletionEffect(Freed.NEVER, why, rule=MFA_DELETE, uploads=uploads)
        days = _days(rules, below, _expiry_days)
        if days is not None:
            why += ", and a lifecycle rule expires noncurrent versions"
            return DeletionEffect(Freed.LATER, why, max(days, locked), uploads=uploads)
        if problem := lifecycle.get(_PROBLEM):
            why += f"; whether a lifecycle rule expires noncurrent versions is not known: {problem}"
        return DeletionEffect(Freed.NEVER, why, rule=EXPIRE_RULES["s3"], uploads=uploads)

    def _ask(self, client: Any, call: str, nothing: str = "") -> Mapping[str, Any]:
        """Return an answer, an empty one where there is no such setting, a problem where it cannot be read."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: Mapping[str, Any] = getattr(client, call)(Bucket=self._bucket)
        except ClientError as e:
            code = str(e.response.get("Error", {}).get("Code", "no code"))
            needed = f", as it needs {_RIGHTS[call]}" if code in _REFUSED else ""
            return {} if code == nothing else {_PROBLEM: f"{call} is answered with {code[:100]}{needed}"}
        except RlmmError as e:
            return {_PROBLEM: f"{call} fails: {e}"}
        except BotoCoreError as e:
            return {_PROBLEM: f"{call} fails with {type(e).__name__}"}
        return answer


def _refuse_listing(http_response: Any, **_: object) -> None:
    """Refuse what a gateway says that does not know the question: botocore takes it for a bucket without versions."""
    if b"<ListBucketResult" in http_response.content:
        raise StorageUnavailableError("this store answers with a listing: it knows no such question")


class GcsBucketInspector:
    """
    A :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector` on google-cloud-storage.

    It needs storage.buckets.get, and storage.objects.list for what single objects are held by.

    :param bucket: returns the ``google.cloud.storage.Bucket``, loaded, or a
        :class:`~airflow_provider_rlmm.core.storage.logins.google_client.GoogleBucket`.
    :param root: prefix of the storage root in the bucket.
    """

    tells_versions: bool = True

    def __init__(self, bucket: Callable[[], Any], root: str = "") -> None:
        self._bucket = bucket
        self._root = as_prefix(root)

    def look(self, prefixes: Sequence[str]) -> DeletionEffect:
        """See :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector`."""
        try:
            bucket = self._bucket()
            rules = [_as_s3_rule(rule) for rule in bucket.lifecycle_rules]
            soft_days = _whole_days(bucket.soft_delete_policy.retention_duration_seconds)
            versioned, name = bool(bucket.versioning_enabled), str(bucket.name)
            held, kept_days = bool(bucket.default_event_based_hold), _whole_days(bucket.retention_period)
        except RlmmError as e:
            return DeletionEffect(Freed.UNKNOWN, f"the bucket's settings cannot be read: {e}")
        except Exception as e:
            # Of any class of Google's.
            return DeletionEffect(Freed.UNKNOWN, f"the bucket's settings cannot be read: {type(e).__name__}")
        below = [self._root + prefix for prefix in prefixes]
        expiry = _days(rules, below, _expiry_days)
        effect = _of_held_bucket(name) if held else _of_google(name, soft_days, expiry, versioned=versioned)
        unknown, held_objects = _held_objects(bucket, below)
        kept = _KEPT_BY_GOOGLE.format(name=name, days=kept_days) if kept_days else ""
        return replace(
            effect,
            why="; ".join(filter(None, [effect.why, unknown])),
            uploads=_uploads_in_words(_days(rules, below, _abort_days)),
            refused=". ".join(filter(None, [kept, held_objects])),
        )

    def is_flat(self) -> bool:
        """See :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector`; all are listed by key."""
        return True


@contextmanager
def _without_debug(name: str) -> Iterator[None]:
    """Keep a client from logging its requests: they hold its session token."""
    log = logging.getLogger(name)
    level = log.level
    log.setLevel(max(log.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        log.setLevel(level)


def as_prefix(root: str) -> str:
    """
    Return what keys below a storage root begin with.

    :param root: its path in the bucket.
    """
    return f"{root.strip('/')}/" if root.strip("/") else ""


def _of_held_bucket(name: str) -> DeletionEffect:
    why = f"bucket {name} holds each object that is written (event-based hold), and a held one is not deleted"
    return DeletionEffect(Freed.REFUSED, why, rule=_RELEASE.format(name=name))


def _of_google(name: str, soft_days: int, expiry: int | None, *, versioned: bool) -> DeletionEffect:
    """
    Say what becomes of objects of a bucket that lets them go.

    :param name: of the bucket.
    :param soft_days: of soft delete.
    :param expiry: after how many days a rule expires versions, ``None`` where none does.
    :param versioned: whether there are any.
    """
    if not versioned and not soft_days:
        return DeletionEffect(Freed.AT_ONCE, f"bucket {name} has neither versions nor soft delete")
    if not versioned:
        why = (
            f"soft delete of bucket {name} keeps what is deleted for {number_of(soft_days, 'day')}, and charges for it"
        )
        return DeletionEffect(Freed.LATER, why, soft_days)
    if expiry is None:
        return DeletionEffect(Freed.NEVER, f"bucket {name} keeps versions", rule=EXPIRE_RULES["gs"])
    return DeletionEffect(Freed.LATER, f"bucket {name} keeps versions", expiry + soft_days)


def _held_objects(bucket: Any, prefixes: Sequence[str]) -> tuple[str, str]:
    """Say what is not known of single objects, and which of the first are held: empty where none is."""
    held: list[str] = []
    seen = 0
    try:
        for prefix in prefixes:
            for stored in bucket.list_blobs(prefix=prefix or None, max_results=_OBJECTS_LOOKED_AT):
                seen += 1
                if stored.temporary_hold or stored.event_based_hold:
                    held.append(str(stored.name))
    except RlmmError as e:
        return f"whether objects are held is not known: {e}", ""
    except Exception as e:
        # Of any class of Google's.
        return f"whether objects are held is not known ({type(e).__name__}): it needs storage.objects.list", ""
    if not held:
        return "", ""
    return "", (
        f"Google Cloud Storage refuses to delete objects that are held, {len(held):,} of {seen:,} that were looked at, such "
        f"as {min(held)}: release them by 'gcloud storage objects update --no-temporary-hold --no-event-based-hold'"
    )


def _whole_days(seconds: Any) -> int:
    return -(-int(seconds or 0) // _DAY_S)


def _days(
    rules: Sequence[Mapping[str, Any]], prefixes: Sequence[str], days_of: Callable[[Mapping[str, Any]], int | None]
) -> int | None:
    """Return after how many days rules do something everywhere below some prefixes; ``None`` where they do not."""
    found = []
    for prefix in prefixes:
        days = [d for rule in rules if _covers(rule, prefix) and (d := days_of(rule)) is not None]
        if not days:
            return None
        found.append(min(days))
    return max(found, default=None)


def _covers(rule: Mapping[str, Any], prefix: str) -> bool:
    """Tell whether a rule is in force for all objects below a prefix: not only for those with a tag or of a size."""
    chosen = rule.get("Filter", {"Prefix": rule.get("Prefix", "")})
    return (
        rule.get("Status") == "Enabled" and chosen.keys() <= {"Prefix"} and prefix.startswith(chosen.get("Prefix", ""))
    )


def _expiry_days(rule: Mapping[str, Any]) -> int | None:
    expiry = rule.get("NoncurrentVersionExpiration", {})
    # A segment is written once: a rule that keeps the newest noncurrent versions keeps it for good.
    return None if expiry.get("NewerNoncurrentVersions") else expiry.get("NoncurrentDays")


def _abort_days(rule: Mapping[str, Any]) -> int | None:
    days: int | None = rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation")
    return days


def _lock_days(lock: Mapping[str, Any]) -> int:
    retention = lock.get("ObjectLockConfiguration", {}).get("Rule", {}).get("DefaultRetention", {})
    return int(retention.get("Days", 0) or 365 * retention.get("Years", 0))


def _uploads_in_words(days: int | None, problem: str | None = None) -> str:
    if problem is not None:
        return f"whether a lifecycle rule aborts incomplete multipart uploads is not known: {problem}"
    if days is None:
        return (
            "no lifecycle rule aborts incomplete multipart uploads, which no listing shows and no deletion removes: set one "
            "with AbortIncompleteMultipartUpload"
        )
    return f"incomplete multipart uploads are aborted after {number_of(days, 'day')} by a lifecycle rule"


def _as_s3_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule of Google's under S3's names; one with a condition that is not known here covers nothing."""
    condition = dict(rule.get("condition", {}))
    prefixes = condition.pop("matchesPrefix", [""])
    plain: dict[str, Any] = {"Status": "Enabled", "Filter": {"Prefix": prefixes[0]}}
    match rule.get("action", {}).get("type"):
        case "AbortIncompleteMultipartUpload":
            plain["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": condition.pop("age", None)}
        case "Delete":
            condition.pop("isLive", None)
            plain["NoncurrentVersionExpiration"] = {"NoncurrentDays": condition.pop("daysSinceNoncurrentTime", None)}
    return plain if not condition and len(prefixes) == 1 else {"Status": "Disabled"}
