# SPDX-License-Identifier: Apache-2.0
"""
What an account of Azure and its container say of themselves, for what obstore cannot ask: asked where the store asks, by the
login that opens the store.

Sources: https://learn.microsoft.com/rest/api/storageservices/get-container-properties, …/get-blob-service-properties,
…/get-account-information and …/list-blobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final
from urllib.parse import quote, unquote, urlencode
from xml.etree import ElementTree

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError, StorageUnavailableError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.azure import PREFIXES
from airflow_provider_rlmm.core.storage.logins.azure_login import AzureLogin
from airflow_provider_rlmm.core.storage.logins.named import is_true, option_or_environment
from airflow_provider_rlmm.core.storage.logins.plain_http import Answer, PlainHttp

_VERSION: Final = "2023-11-03"
"""Of the interface: obstore's."""

_CODE: Final = re.compile(r"\w{1,100}")


@dataclass(frozen=True, slots=True)
class Retention:
    """
    :param enabled: whether what is deleted is kept.
    :param days: for how many days, ``None`` where it is not.
    """

    enabled: bool
    days: int | None


@dataclass(frozen=True, slots=True)
class ContainerProperties:
    """
    :param has_legal_hold: whether a hold keeps every blob.
    :param has_immutability_policy: whether a policy keeps each blob for some time.
    :param immutable_storage_with_versioning_enabled: whether versions may be kept so, ``None`` where that is not told.
    """

    has_legal_hold: bool | None
    has_immutability_policy: bool | None
    immutable_storage_with_versioning_enabled: bool | None


@dataclass(frozen=True, slots=True)
class Blob:
    """
    :param name: its key in the container.
    :param snapshot: when it was taken, ``None`` of the blob itself.
    """

    name: str
    snapshot: str | None


class AzureService:
    """
    What :class:`~airflow_provider_rlmm.core.storage.azure_settings.AzureContainerInspector` asks of an account.

    The names are those of azure-storage-blob.

    :param access: what opens the store, with the account that its URI names among the options.
    :raises ConfigurationError: if no account is named, or requests cannot be sent as the store sends them.
    """

    def __init__(self, access: StoreAccess) -> None:
        options = access.options
        account = option_or_environment(options, {"account_name"}, PREFIXES)
        if account is None:
            raise ConfigurationError(
                "no account of Azure is named: abfss://container@account.dfs.core.windows.net/folder"
            )
        for name in ("use_emulator", "use_fabric_endpoint"):
            if is_true(option_or_environment(options, {name}, PREFIXES)):
                raise ConfigurationError(
                    f"nothing is asked where {name} is set: name the address by the option endpoint"
                )
        named = option_or_environment(options, {"endpoint"}, PREFIXES)
        self._address = (named or f"https://{account}.blob.core.windows.net").rstrip("/")
        self._http = PlainHttp(options, PREFIXES)
        self._login = AzureLogin(options, account, self._http)

    def get_container_client(self, container: str) -> AzureContainer:
        """
        Return what asks of a container; nothing is asked yet.

        :param container: its name.
        """
        return AzureContainer(self, container)

    def get_service_properties(self) -> Mapping[str, Retention]:
        """Return the account's soft delete, as ``delete_retention_policy``."""
        found = _parsed(self.ask("", restype="service", comp="properties")).find("DeleteRetentionPolicy")
        enabled = None if found is None else _as_bool(found.findtext("Enabled"))
        if found is None or enabled is None:
            raise StorageUnavailableError("Azure does not tell of soft delete")
        try:
            return {
                "delete_retention_policy": Retention(enabled, int(found.findtext("Days") or "") if enabled else None)
            }
        except ValueError:
            raise StorageUnavailableError("Azure does not tell of the days of soft delete") from None

    def get_account_information(self, container: str = "") -> Mapping[str, bool | None]:
        """
        Return whether the account has folders, as ``is_hns_enabled``.

        :param container: asked in place of the account, as who may read a container only.
        """
        answer = self.ask(container, restype="account", comp="properties")
        return {"is_hns_enabled": _as_bool(answer.headers.get("x-ms-is-hns-enabled"))}

    def ask(self, container: str, **query: str) -> Answer:
        """
        Send a question.

        :param container: whom it is about, empty for the account.
        :param query: what is asked.
        :raises StorageAccessError: if Azure refuses it, with its code.
        :raises StorageUnavailableError: if it answers in any other way.
        """
        url = f"{self._address}/{quote(container)}?{urlencode(query, quote_via=quote)}"
        at = format_datetime(datetime.now(UTC), usegmt=True)
        answer = self._http.send(*self._login.signed(url, {"x-ms-date": at, "x-ms-version": _VERSION}))
        if answer.status == 200:
            return answer
        code = answer.headers.get("x-ms-error-code", "")
        told = f"Azure answers with {answer.status}" + (f", {code}" if _CODE.fullmatch(code) else "")
        raise (StorageAccessError if answer.status in (401, 403) else StorageUnavailableError)(told)


class AzureContainer:
    """
    The same of a container.

    :param service: the account.
    :param name: of the container.
    """

    def __init__(self, service: AzureService, name: str) -> None:
        self._service = service
        self._name = name

    def get_container_properties(self) -> ContainerProperties:
        """Return what keeps blobs from being deleted."""
        told = self._service.ask(self._name, restype="container").headers
        found = ContainerProperties(
            has_legal_hold=_as_bool(told.get("x-ms-has-legal-hold")),
            has_immutability_policy=_as_bool(told.get("x-ms-has-immutability-policy")),
            immutable_storage_with_versioning_enabled=_as_bool(
                told.get("x-ms-immutable-storage-with-versioning-enabled")
            ),
        )
        if found.has_legal_hold is None or found.has_immutability_policy is None:
            raise StorageUnavailableError("Azure does not tell of holds and policies")
        return found

    def get_account_information(self) -> Mapping[str, bool | None]:
        """See :meth:`AzureService.get_account_information`, as who may read the container only."""
        return self._service.get_account_information(self._name)

    def list_blobs(self, name_starts_with: str | None, include: Sequence[str], results_per_page: int) -> FirstPage:
        """
        Return a listing of which one page can be read; nothing is asked yet.

        :param name_starts_with: what the names of blobs begin with.
        :param include: what is listed beside blobs.
        :param results_per_page: at most.
        """
        query = {"include": ",".join(include), "maxresults": str(results_per_page)}
        if name_starts_with:
            query["prefix"] = name_starts_with
        return FirstPage(self._service, self._name, query)


class FirstPage:
    """
    The first page of a listing.

    :param service: the account.
    :param container: the name of the container.
    :param query: what is listed.
    :ivar continuation_token: empty once the page was read and there is no other.
    """

    def __init__(self, service: AzureService, container: str, query: Mapping[str, str]) -> None:
        self._service = service
        self._container = container
        self._query = query
        self.continuation_token = ""

    def by_page(self) -> FirstPage:
        """Return itself: azure-storage-blob makes pages of a listing so."""
        return self

    def __iter__(self) -> Iterator[Sequence[Blob]]:
        return self

    def __next__(self) -> Sequence[Blob]:
        found = _parsed(self._service.ask(self._container, restype="container", comp="list", **self._query))
        listed = found.find("Blobs")
        if listed is None:
            raise StorageUnavailableError("Azure answers with no listing")
        self.continuation_token = found.findtext("NextMarker") or ""
        return [Blob(_name(blob), blob.findtext("Snapshot")) for blob in listed.iterfind("Blob")]


def _parsed(answer: Answer) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(answer.body)  # noqa: S314 - expat bounds what entities grow to
    except ElementTree.ParseError:
        raise StorageUnavailableError("Azure answers with no XML") from None


def _name(blob: ElementTree.Element) -> str:
    found = blob.find("Name")
    if found is None or not found.text:
        raise StorageUnavailableError("Azure lists a blob without a name")
    return unquote(found.text) if found.get("Encoded") == "true" else found.text


def _as_bool(told: str | None) -> bool | None:
    return {"true": True, "false": False}.get((told or "").strip().lower())
