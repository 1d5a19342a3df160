# SPDX-License-Identifier: Apache-2.0
"""Names below the work folder that more than one part of the package must know."""

from __future__ import annotations

_CLUSTER = "cluster-"


def cluster_folder(cluster_id: str) -> str:
    """
    Return the name of the folder of what runs remember of a cluster.

    :param cluster_id: of the cluster. Whatever is read from the folder says its cluster id, and is compared with it.
    """
    return f"{_CLUSTER}{cluster_id.lstrip('._-')}"


def is_cluster_folder(name: str) -> bool:
    """
    Tell whether a folder may be a cluster's.

    :param name: of the folder.
    """
    return name.startswith(_CLUSTER)
