# SPDX-License-Identifier: Apache-2.0
"""Where runs of this package have left what they knew: snapshots of the metadata topic, and audit logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import file_sizes, list_files, list_folders
from airflow_provider_rlmm.core.base.given import argument
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.work_folder import (
    SNAPSHOT_SUFFIX,
    SNAPSHOTS_FOLDER,
    cluster_folder,
    is_cluster_folder,
)
from airflow_provider_rlmm.core.world.audit import AUDIT_FOLDER


@dataclass(frozen=True, slots=True)
class EarlierSources:
    """Files and folders that are asked."""

    snapshots: tuple[str, ...] = ()  # URIs of files
    audits: tuple[str, ...] = ()  # URIs of folders that hold the folder of an audit log

    def __add__(self, other: EarlierSources) -> EarlierSources:
        return EarlierSources(
            tuple(dict.fromkeys(self.snapshots + other.snapshots)), tuple(dict.fromkeys(self.audits + other.audits))
        )


def sources_named(snapshots: Sequence[str], audits: Sequence[str]) -> EarlierSources:
    """
    Return the sources that a person names.

    :param snapshots: paths or URIs of files.
    :param audits: paths or URIs of audit logs, or of the folders that hold them.
    :raises CatalogueError: if one is not there.
    """
    try:
        for uri in snapshots:
            folder, _, name = uri.rstrip("/").rpartition("/")
            if name not in file_sizes(folder or "."):
                raise CatalogueError(
                    f"there is no snapshot {in_quotes(uri)}: correct {argument('snapshots')}, or leave it out"
                )
        holders = tuple(uri.rstrip("/").removesuffix(f"/{AUDIT_FOLDER}") for uri in audits)
        for uri in holders:
            if AUDIT_FOLDER not in list_folders(uri):
                raise CatalogueError(
                    f"{in_quotes(uri)} holds no folder {AUDIT_FOLDER}: correct {argument('audits')}, or leave it out"
                )
    except (OSError, ConfigurationError) as e:
        raise CatalogueError(f"a source that was named cannot be looked for: {e}") from e
    return EarlierSources(tuple(snapshots), holders)


def sources_below(work_uri: str, cluster_id: str | None, named_by: str = "work_uri") -> EarlierSources:
    """
    Return the sources in a work folder, or in the second place of its snapshots, which has folders of the same names.

    :param work_uri: of the folder; where there is none, there are no sources.
    :param cluster_id: the cluster; ``None`` for all clusters that runs of the work folder have worked for.
    :param named_by: what names another folder, for the message.
    :raises CatalogueError: if it cannot be looked into: it could not be told what is deleted.
    """
    snapshots, audits = list[str](), list[str]()
    try:
        for name in list_folders(work_uri):
            if not (is_cluster_folder(name) if cluster_id is None else name == cluster_folder(cluster_id)):
                continue
            cluster = f"{work_uri}/{name}"
            for folder in (cluster, f"{cluster}/{SNAPSHOTS_FOLDER}"):
                snapshots += [f"{folder}/{file}" for file in list_files(folder) if file.endswith(SNAPSHOT_SUFFIX)]
            if AUDIT_FOLDER in list_folders(cluster):
                audits.append(cluster)
    except (OSError, ConfigurationError) as e:
        raise CatalogueError(
            f"{in_quotes(work_uri)} cannot be looked into, so it cannot be told what runs have deleted: {e}; mend that, or "
            f"name another one by {named_by}"
        ) from e
    return EarlierSources(tuple(snapshots), tuple(audits))
