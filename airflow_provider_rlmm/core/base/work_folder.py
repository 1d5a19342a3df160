# SPDX-License-Identifier: Apache-2.0
"""Names below the work folder that more than one part of the package must know."""

from __future__ import annotations

import re

_CLUSTER = "cluster-"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
CHECK_DOCUMENT = "check.json"
MARK_DOCUMENT = "mark.json"
DOCTOR_DOCUMENT = "doctor.json"
APPROVAL_DOCUMENT = "approval.json"
REPORT_DOCUMENT = "report.json"
SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOTS_FOLDER = "snapshots"
"""In the folder of a cluster: earlier snapshots of its metadata topic."""


def cluster_folder(cluster_id: str) -> str:
    """
    Return the name of the folder of what runs remember of a cluster.

    :param cluster_id: of the cluster; Kafka's own ids have letters, digits, dashes and underscores. Each document that is
        read from the folder says its cluster id, and is compared with it.
    """
    return _CLUSTER + _NO_NAME.sub("-", cluster_id).lstrip("._-")


def generations_folder(cluster_id: str) -> str:
    """
    Return the name of the folder of the generations that the Spark job keeps.

    :param cluster_id: of the cluster; each manifest says its own, and is compared with it.
    """
    return f"segments-{cluster_id}"


def is_cluster_folder(name: str) -> bool:
    """Tell whether a folder may be a cluster's."""
    return name.startswith(_CLUSTER)
