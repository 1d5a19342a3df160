# SPDX-License-Identifier: Apache-2.0
"""How old the remote segments of a cluster are, as the Spark job told it last."""

from __future__ import annotations

from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT, MAX_BYTES, RecordAges
from airflow_provider_rlmm.overview.documents import document_of_cluster


def record_ages_of(work_uri: str, folder: str) -> RecordAges | None:
    """
    Return what was told last of a cluster, ``None`` if no Spark job has.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :raises DocumentError: if it cannot be read, or is of another cluster.
    """
    return document_of_cluster(
        work_uri,
        folder,
        AGES_DOCUMENT,
        RecordAges.from_json,
        max_bytes=MAX_BYTES,
        what_to_do="run remote_log_retention",
    )
