# SPDX-License-Identifier: Apache-2.0
"""
Which storage roots this cluster's runs have worked on before: a small document per cluster in the work folder.

A stamp proves nothing by lying there, since a copy of the root holds a copy of it. It counts once a run that had verified the
root by its objects has recorded the root id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.file_systems import read_file, replace_file

ROOTS_DOCUMENT = "roots.json"
_MAX_BYTES = 2**20


def recorded_roots(uri: str, cluster_id: str) -> frozenset[str]:
    """
    Return the root ids that earlier runs have recorded.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :raises PlanError: if the document is there and cannot be read, or is another cluster's.
    """
    try:
        document = json.loads(bytes(read_file(f"{uri}/{ROOTS_DOCUMENT}", _MAX_BYTES)))
        roots = document["root_ids"]
        if document["cluster_id"] != cluster_id or not all(isinstance(root, str) for root in roots):
            raise ValueError("it is not this cluster's")
        return frozenset(roots)
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise PlanError(
            f"{uri}/{ROOTS_DOCUMENT}, the storage roots that earlier runs have recorded, cannot be read ({e}); remove it, "
            "and set expected_root of the rlmm connection if no topic lives in this storage"
        ) from e


def record_roots(uri: str, cluster_id: str, root_ids: Iterable[str]) -> None:
    """
    Add root ids of a root that was verified in this run.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :param root_ids: the ids; known ones are not written again.
    :raises PlanError: if the document is there and cannot be read.
    :raises OSError: if it cannot be written; the older one is still there.
    """
    known = recorded_roots(uri, cluster_id)
    if not known.issuperset(root_ids := frozenset(root_ids)):
        document = {"cluster_id": cluster_id, "root_ids": sorted(known | root_ids)}
        replace_file(f"{uri}/{ROOTS_DOCUMENT}", [json.dumps(document, indent=2).encode()])
