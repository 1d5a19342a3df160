# SPDX-License-Identifier: Apache-2.0
"""
What an operator tells OpenLineage: the metadata topic and the remote storage as datasets, its counts as a facet of the run.

Airflow's OpenLineage provider asks for it where it is installed and configured. Names of datasets follow OpenLineage's naming
specification, so that other tools' events about the same topic and bucket meet there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_rlmm.core.base.store_uris import read_store_uri
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

FACET = "remoteLog"
"""Name of the facet among those of a run."""

MAX_COUNTS = 100

_ADDRESS = re.compile(r"[\w.:%\[\]-]+")


class Place(StrEnum):
    """What an operator reads or writes."""

    TOPIC = "topic"  # the metadata topic
    STORAGE = "storage"  # the remote storage


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A dataset as OpenLineage's naming specification spells it."""

    namespace: str  # where: scheme and authority
    name: str  # what: unique there


@dataclass(frozen=True, slots=True)
class Touched:
    """What a kind of operator reads and writes; a dry run writes nothing."""

    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What a task has said of its work so far."""

    dry_run: bool | None = None  # ``None`` where it does not say
    counts: Mapping[str, int] = field(default_factory=dict)


def told_by(result: Mapping[str, Any]) -> Told:
    """
    Return what the result of a task says: its numbers, those within it too, and whether it was a dry run.

    :param result: what the task returns.
    """
    dry_run = result.get("dry_run")
    return Told(dry_run if isinstance(dry_run, bool) else None, dict(islice(_numbers(result), MAX_COUNTS)))


def _numbers(result: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, int]]:
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{before}{name}.")
        elif type(value) is int:
            yield f"{before}{name}", value


def lineage_of(touched: Touched, rlmm_conn_id: str | None, told: Told) -> OperatorLineage[Any, Any]:
    """
    Return what OpenLineage is told.

    :param touched: by this kind of operator.
    :param rlmm_conn_id: connection of type ``rlmm``; ``None`` where the operator has none: then no dataset is named.
    :param told: what the task has said of its work so far.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_rlmm.observability.run_facet import RemoteLogRunFacet

    names = datasets(RemoteLogMetadataHook(rlmm_conn_id)) if rlmm_conn_id else {}

    def of(places: tuple[Place, ...]) -> list[Dataset]:
        return [Dataset(names[p].namespace, names[p].name) for p in places if p in names]

    return OperatorLineage(
        inputs=of(touched.reads),
        # Nothing is known to have been written before the task has said so.
        outputs=of(touched.writes) if told.dry_run is False else [],
        run_facets={FACET: RemoteLogRunFacet(rlmm_conn_id, told.dry_run, dict(told.counts))},
    )


def datasets(hook: RemoteLogMetadataHook) -> Mapping[Place, DatasetName]:
    """
    Return what a connection leads to, as far as it names it; no broker and no store is asked.

    :raises ConfigurationError: naming the connection and the field.
    """
    settings = hook.get_connection_settings()
    found = {}
    if broker := _first_broker(hook.get_connection(settings.kafka_conn_id).extra_dejson.get("bootstrap.servers")):
        found[Place.TOPIC] = DatasetName(f"kafka://{broker}", settings.metadata_topic)
    if settings.storage_uri:
        found[Place.STORAGE] = storage_dataset(settings.storage_uri)
    return found


def _first_broker(servers: object) -> str | None:
    """Return the first address; ``None`` where it is none: a task with a login in it fails, and is told of all the same."""
    first = str(servers or "").partition(",")[0].strip()
    return first if "@" not in str(servers) and _ADDRESS.fullmatch(first) else None


def storage_dataset(uri: str) -> DatasetName:
    """
    Return the dataset of a storage root.

    :param uri: of the root, with a scheme and without credentials.
    """
    parts = urlsplit(uri)
    path = parts.path.strip("/") or "/"
    if parts.scheme == "file":
        return DatasetName("file", parts.path.rstrip("/") or "/")
    store = read_store_uri(uri)
    if store.kind == "az" and store.account:
        container = urlsplit(store.uri).netloc
        host = urlsplit(store.endpoint).netloc.partition(".blob.")[2] or "core.windows.net"
        return DatasetName(f"abfss://{container}@{store.account}.dfs.{host}", path)
    return DatasetName(f"{urlsplit(store.uri).scheme}://{urlsplit(store.uri).netloc}", path)
