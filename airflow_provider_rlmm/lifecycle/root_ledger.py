# SPDX-License-Identifier: Apache-2.0
"""
Which storage roots runs have worked on: a small document per cluster in the work folder.

Of each place only the latest counts: who goes back to an older root has to prove it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.file_systems import read_file, replace_file

ROOTS_DOCUMENT = "roots.json"
_MAX_BYTES = 2**20


def recorded_roots(uri: str, cluster_id: str) -> frozenset[str]:
    """
    Return the root ids that the latest runs have recorded, one per place.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :raises PlanError: if the document is there and cannot be read, or is another cluster's.
    """
    return frozenset(_read(uri, cluster_id).values())


def _read(uri: str, cluster_id: str) -> dict[str, str]:
    try:
        document = json.loads(bytes(read_file(f"{uri}/{ROOTS_DOCUMENT}", _MAX_BYTES)))
        roots: dict[str, str] = document["root_ids"]
        if document["cluster_id"] != cluster_id or not all(isinstance(root, str) for root in roots.values()):
            raise ValueError("it is not this cluster's")
        return roots
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise PlanError(
            f"{uri}/{ROOTS_DOCUMENT}, the storage roots that earlier runs have recorded, cannot be read ({e}); remove it, "
            "and set expected_root of the rlmm connection if no topic lives in this storage"
        ) from e


def record_roots(uri: str, cluster_id: str, root_ids: Mapping[str, str]) -> None:
    """
    Record the root that was verified in this run.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :param root_ids: name of the place → its root id; what is known is not written again.
    :raises PlanError: if the document is there and cannot be read.
    :raises OSError: if it cannot be written; the older one is still there.
    """
    known = _read(uri, cluster_id)
    if (latest := {**known, **root_ids}) != known:
        document = {"cluster_id": cluster_id, "root_ids": latest}
        replace_file(f"{uri}/{ROOTS_DOCUMENT}", [json.dumps(document, indent=2).encode()])
