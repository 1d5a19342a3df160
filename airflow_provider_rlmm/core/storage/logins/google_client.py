# SPDX-License-Identifier: Apache-2.0
"""
The settings of a Google bucket, for what obstore cannot ask: asked where the store asks, by the login that opens the store.

Source: https://cloud.google.com/storage/docs/json_api/v1/buckets/get.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError, StorageUnavailableError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.core.storage.logins.google import PREFIX, SCOPE, credentials_of, file_of_login
from airflow_provider_rlmm.core.storage.logins.named import is_true, option_or_environment
from airflow_provider_rlmm.core.storage.logins.plain_http import Answer, PlainHttp

_ADDRESS: Final = "https://storage.googleapis.com"
_REASON: Final = re.compile(r"\w{1,100}")


@dataclass(frozen=True, slots=True)
class SoftDelete:
    """
    For how long a bucket keeps what is deleted.

    :param retention_duration_seconds: 0 where it does not.
    """

    retention_duration_seconds: int


@dataclass(frozen=True, slots=True)
class GoogleBucket:
    """
    What :class:`~airflow_provider_rlmm.core.storage.bucket_settings.GcsBucketInspector` asks of a bucket.

    The names are those of google-cloud-storage.

    :param name: of the bucket.
    :param versioning_enabled: whether it keeps versions.
    :param lifecycle_rules: in Google's form.
    :param soft_delete_policy: of deleted objects.
    :param retention_period: seconds for which no object may be deleted, ``None`` where there is no such policy.
    :param default_event_based_hold: whether each object is held that is written.
    """

    name: str
    versioning_enabled: bool
    lifecycle_rules: Sequence[Mapping[str, Any]]
    soft_delete_policy: SoftDelete
    retention_period: int | None
    default_event_based_hold: bool


def bucket_of_google(access: StoreAccess, bucket: str, *, instance_metadata: bool) -> GoogleBucket:
    """
    Ask for the settings of a bucket, by one request.

    :param access: what opens the store.
    :param bucket: its name.
    :param instance_metadata: whether the machine may be asked for its role where nothing else gives credentials.
    :raises ConfigurationError: if google-auth is missing, or nothing gives credentials; it holds no secret.
    :raises StorageAccessError: if the login gives no credentials, or the right is missing.
    :raises StorageUnavailableError: if there is no answer, or another one than a bucket.
    """
    login = _Login.of(access)
    token = login.token(instance_metadata=instance_metadata)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{login.address}/storage/v1/b/{quote(bucket, safe='')}?projection=noAcl"
    return _as_bucket(bucket, PlainHttp(access.options, PREFIX).send(url, headers))


@dataclass(frozen=True, slots=True)
class _Login:
    """
    :param access: what opens the store.
    :param key: what the file or text of a login holds, ``None`` where there is none.
    """

    access: StoreAccess
    key: Mapping[str, Any] | None

    @classmethod
    def of(cls, access: StoreAccess) -> _Login:
        return cls(access, _key(access.options) if access.credentials is None else None)

    @property
    def address(self) -> str:
        named = option_or_environment(self.access.options, {"base_url"}, PREFIX)
        return str(named or (self.key or {}).get("gcs_base_url") or _ADDRESS).rstrip("/")

    def token(self, *, instance_metadata: bool) -> str | None:
        """Return a bearer token, ``None`` for requests without one."""
        options = self.access.options
        if is_true(option_or_environment(options, {"skip_signature"}, PREFIX)):
            return None
        if self.access.credentials is not None:
            return str(self.access.credentials()["token"])
        if bearer := option_or_environment(options, {"bearer_token"}, PREFIX):
            return bearer
        if (self.key or {}).get("disable_oauth"):
            return None
        return str(_credentials(self.key, instance_metadata=instance_metadata)()["token"])


def _key(options: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return what obstore reads: the key of a service account, or the login of a person."""
    text = option_or_environment(options, {"service_account_key"}, PREFIX)
    is_text = text is not None
    paths = ({"service_account", "service_account_path"}, {"application_credentials"})
    named = next(filter(None, (option_or_environment(options, names, PREFIX) for names in paths)), None)
    path = Path(named).expanduser() if named else file_of_login()
    if text is None:
        if path is None:
            return None
        with suppress(OSError, ValueError):
            text = path.read_text("utf-8")
    try:
        found = json.loads(text or "")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        what = "the option service_account_key" if is_text else repr(str(path))
        raise ConfigurationError(f"{what} holds no readable Google credentials")
    return found


def _credentials(key: Mapping[str, Any] | None, *, instance_metadata: bool) -> StoreCredentials:
    if key is None and not instance_metadata:
        raise ConfigurationError(
            "nothing gives credentials of Google: log in by 'gcloud auth application-default login'"
        )
    try:
        from google.auth import compute_engine
        from google.oauth2 import credentials, service_account
    except ModuleNotFoundError:
        raise ConfigurationError(
            "google-auth, which gives a token for them, is not installed: install airflow-provider-rlmm[gcs]"
        ) from None
    if key is None:
        return credentials_of(compute_engine.Credentials(), "the role of this machine")
    # Keys for obstore may leave out their type. A person's login has the scopes that were asked for when it was made.
    if key.get("type", "service_account") == "service_account":
        found = service_account.Credentials.from_service_account_info(key, scopes=[SCOPE])
    else:
        found = credentials.Credentials.from_authorized_user_info(key)
    return credentials_of(found, "the login of Google")


def _as_bucket(name: str, answer: Answer) -> GoogleBucket:
    try:
        told = json.loads(answer.body)
    except ValueError:
        told = None
    if answer.status in (401, 403):
        reason = _reason(told)
        raise StorageAccessError(f"Google answers with {answer.status}{reason}, as it needs storage.buckets.get")
    if answer.status != 200:
        raise StorageUnavailableError(f"Google answers with {answer.status}{_reason(told)}")
    try:
        if told["name"] != name:
            raise KeyError
        retention = told.get("retentionPolicy", {}).get("retentionPeriod")
        return GoogleBucket(
            name=name,
            versioning_enabled=told.get("versioning", {}).get("enabled", False) is True,
            lifecycle_rules=tuple(dict(rule) for rule in told.get("lifecycle", {}).get("rule", ())),
            soft_delete_policy=SoftDelete(int(told.get("softDeletePolicy", {}).get("retentionDurationSeconds") or 0)),
            retention_period=None if retention is None else int(retention),
            default_event_based_hold=told.get("defaultEventBasedHold", False) is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StorageUnavailableError(
            "this store answers with no bucket of Google's: it knows no such question"
        ) from None


def _reason(told: Any) -> str:
    """Return the code of an error in brackets: the text beside it is a server's."""
    try:
        code = str(told["error"]["errors"][0]["reason"])
    except (KeyError, IndexError, TypeError):
        return ""
    return f" ({code})" if _REASON.fullmatch(code) else ""
