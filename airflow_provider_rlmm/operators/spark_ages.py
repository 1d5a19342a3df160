# SPDX-License-Identifier: Apache-2.0
"""How old the remote segments of a cluster are, from the run of the Spark job that has told it to the pages."""

from __future__ import annotations

import logging

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.plans.plan_files import read_document, write_document
from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT, MAX_BYTES, RecordAges

logger = logging.getLogger(__name__)


def keep_record_ages(uri: str, cluster_uri: str, cluster_id: str) -> None:
    """
    Keep what a run has told, for the pages of the cluster; where that cannot be done the log says so.

    :param uri: of the run's folder.
    :param cluster_uri: the folder of the cluster.
    :param cluster_id: its id.
    """
    try:
        text = read_document(uri, AGES_DOCUMENT, MAX_BYTES)
        if (told := RecordAges.from_json(text).cluster_id) != cluster_id:
            logger.warning(
                "%s of %s is of another cluster, %s: the pages show an older answer", AGES_DOCUMENT, uri, told
            )
            return
        write_document(cluster_uri, AGES_DOCUMENT, text)
    except (OSError, RlmmError) as e:
        logger.warning("how old the segments are is not kept, the pages show an older answer or none: %s", e)
