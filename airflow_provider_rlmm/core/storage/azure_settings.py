# SPDX-License-Identifier: Apache-2.0
"""
What a container of Azure says about deletion, read through the client that the official Airflow provider opens, or one of the
login of the machine.

Azure refuses to delete a blob that has snapshots, as obstore's requests do not ask for these to go along, and every blob of a
container with a legal hold. Under an immutability policy it refuses until the retention of a blob ends. Each is asked for
beforehand, with a few calls; what may not be read is said, with the right that is missing.

Sources: https://learn.microsoft.com/rest/api/storageservices/get-container-properties,
https://learn.microsoft.com/rest/api/storageservices/delete-blob and
https://learn.microsoft.com/azure/storage/blobs/immutable-container-level-worm-policies.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from airflow_provider_rlmm.core.base.agreement import agreeing
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.storage.bucket_settings import as_prefix
from airflow_provider_rlmm.core.storage.hidden_copies import EXPIRE_RULES, DeletionEffect, Freed

logger = logging.getLogger(__name__)

_BLOBS_LOOKED_AT: Final = 5_000
"""Below each prefix: what Azure lists in one page at most."""

_CONTAINER_RIGHT: Final = (
    "it needs Microsoft.Storage/storageAccounts/blobServices/containers/read, the account key or a signature of the account; "
    "else look at the container's access policies in the portal"
)
_SERVICE_RIGHT: Final = (
    "it needs Microsoft.Storage/storageAccounts/blobServices/read, the account key or a signature of the account; else look "
    "at the account's data protection in the portal"
)
_LIST_RIGHT: Final = "it needs the right to list; else look for snapshots by 'az storage blob list --include s'"
_CLEAR_HOLD: Final = "have it cleared by 'az storage container legal-hold clear'"
_AWAIT_POLICY: Final = (
    "'az storage container immutability-policy show' tells for how long: wait until then, or have a policy that is not "
    "locked deleted"
)
_DELETE_SNAPSHOTS: Final = "delete them by 'az storage blob delete --delete-snapshots only'"
_CODE: Final = re.compile(r"\w{1,100}")


class AzureContainerInspector:
    """
    A :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector` on azure-storage-blob.

    The service's properties tell of soft delete, those of the container of holds and policies, a listing of snapshots.
    Versions and management policies belong to another API, which needs rights on the account.

    :param service: returns the ``BlobServiceClient``, or an
        :class:`~airflow_provider_rlmm.core.storage.logins.azure_client.AzureService`.
    :param container: name of the container.
    :param root: prefix of the storage root in the container.
    """

    tells_versions: bool = False

    def __init__(self, service: Callable[[], Any], container: str, root: str = "") -> None:
        self._service = service
        self._container = container
        self._root = as_prefix(root)

    def look(self, prefixes: Sequence[str]) -> DeletionEffect:
        """See :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector`."""
        try:
            service = self._service()
            container = service.get_container_client(self._container)
        except Exception as e:
            # Of any class of Azure's.
            return DeletionEffect(Freed.UNKNOWN, f"the account's settings cannot be read: {_failure(e)}")
        held, unknown = self._of_container(container)
        effect = held or _of_account(service)
        snapshots, refused = self._snapshots(container, [self._root + prefix for prefix in prefixes])
        return replace(effect, why="; ".join(filter(None, [effect.why, unknown, snapshots])), refused=refused)

    def is_flat(self) -> bool:
        """
        See :class:`~airflow_provider_rlmm.core.storage.hidden_copies.BucketInspector`.

        Get Account Information says it: asked of the account, then of the container, as a signature of the container may.
        """
        try:
            service = self._service()
            clients = (service, service.get_container_client(self._container))
        except Exception as e:
            logger.info(
                "every listing goes to its end, as it cannot be asked whether the account has folders: %s", _failure(e)
            )
            return False
        for client in clients:
            try:
                told = client.get_account_information().get("is_hns_enabled")
            except Exception as e:
                logger.info("whether the account has folders is not told: %s", _failure(e))
                continue
            if told is not None:
                return told is False
        return False

    def _of_container(self, container: Any) -> tuple[DeletionEffect | None, str]:
        """Return what the container decides, ``None`` where it leaves that to the account; and what it does not tell."""
        name = f"container {self._container}"
        try:
            found = container.get_container_properties()
            held, policy = bool(found.has_legal_hold), bool(found.has_immutability_policy)
            versioned = bool(found.immutable_storage_with_versioning_enabled)
        except Exception as e:
            known = f"whether {name} has a legal hold or an immutability policy is not known ({_failure(e)})"
            return None, f"{known}: {_CONTAINER_RIGHT}"
        if held:
            why = f"{name} has a legal hold, under which Azure deletes no blob"
            return DeletionEffect(Freed.REFUSED, why, rule=_CLEAR_HOLD), ""
        if versioned:
            why = f"{name} has immutable storage with versions, which keeps each blob that is deleted as a version"
            return DeletionEffect(Freed.NEVER, why, rule=EXPIRE_RULES["az"]), ""
        if policy:
            why = f"{name} has an immutability policy, under which Azure deletes no blob before its retention ends"
            return DeletionEffect(Freed.REFUSED, why, rule=_AWAIT_POLICY), ""
        return None, ""

    def _snapshots(self, container: Any, prefixes: Sequence[str]) -> tuple[str, str]:
        """Say which of the first blobs have snapshots, and what deletion does for that: empty where none has any."""
        blobs: set[str] = set()
        kept: set[str] = set()
        is_all = True
        try:
            for prefix in prefixes:
                listed = container.list_blobs(
                    name_starts_with=prefix or None, include=["snapshots"], results_per_page=_BLOBS_LOOKED_AT
                ).by_page()
                for blob in next(listed, ()):
                    (blobs if blob.snapshot is None else kept).add(blob.name)
                is_all = is_all and not listed.continuation_token
        except Exception as e:
            return f"whether blobs have snapshots is not known ({_failure(e)}): {_LIST_RIGHT}", ""
        looked_at = f"{len(blobs | kept):,} blobs" if is_all else f"the first {len(blobs | kept):,} blobs"
        if not kept:
            return f"none of {looked_at} has a snapshot", ""
        said = f"{len(kept):,} of {looked_at} {agreeing(len(kept), 'has', 'have')} snapshots"
        return said, f"Azure refuses to delete a blob that has snapshots, such as {min(kept)}: {_DELETE_SNAPSHOTS}"


def _of_account(service: Any) -> DeletionEffect:
    try:
        policy = service.get_service_properties()["delete_retention_policy"]
        days = int(policy.days) if policy.enabled else None
    except Exception as e:
        why = f"whether soft delete keeps what is deleted is not known ({_failure(e)}): {_SERVICE_RIGHT}"
        return DeletionEffect(Freed.UNKNOWN, why)
    if days is None:
        return DeletionEffect(Freed.UNKNOWN, "the account has no soft delete; its settings do not tell of versions")
    return DeletionEffect(Freed.LATER, "soft delete of the account keeps what is deleted, and charges for it", days)


def _failure(error: Exception) -> str:
    """Name an error by its class and Azure's code, which is no text of the server's; those of this package hold none."""
    if isinstance(error, RlmmError):
        return str(error)
    code = getattr(error, "error_code", None)
    code = str(getattr(code, "value", code) or "")
    return f"{type(error).__name__}, {code}" if _CODE.fullmatch(code) else type(error).__name__
