# SPDX-License-Identifier: Apache-2.0
"""The step of a run that looks at what there is, for people: an inventory of the whole metadata topic."""

from __future__ import annotations

import logging

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.prices import StoragePrice
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.holding import require_known_only
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.features.survey.inventory import SURVEY_FOLDER, Inventory

logger = logging.getLogger(__name__)


def survey_folder(session: CleanerSession, uri: str) -> str:
    """
    Return where a survey leaves its inventory: with the cluster's, or in the folder of its run if it is of some topics only.

    :param session: of the run.
    :param uri: of the folder of the run.
    """
    return f"{uri}/{SURVEY_FOLDER}" if not session.only.is_all else session.cluster_uri


def survey(
    session: CleanerSession,
    uri: str,
    name: str,
    connection: str,
    *,
    limits: CleanerLimits,
    price: StoragePrice | None = None,
) -> Inventory:
    """
    Judge every topic that has remote segments, and write the inventory of the cluster: nothing that deletes ever reads it.

    Where the run is for some topics only, the inventory is of these and stays in the folder of the run: pages never show it.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param name: of the run.
    :param connection: by which the cluster is reached.
    :param limits: by which it is judged what may be cleaned now.
    :param price: by which costs are reckoned, ``None`` where none is set.
    :return: the document of the inventory.
    :raises ConfigurationError: if the run is for topics that neither log nor cluster knows.
    :raises OSError: if it cannot be written; an older inventory is still there, whole.
    :raises RlmmError: if cluster or topic cannot be read.
    """
    from airflow_provider_rlmm.features.survey import survey as surveyed
    from airflow_provider_rlmm.features.survey.inventory_files import write_inventory

    with step(uri, "survey"), session.topic(or_folded=True) as topic:
        topic.advance()
        require_known_only(session, topic)
        now_ms = session.clock()
        found = surveyed.survey(topic, limits, session.hold(), now_ms, session.only)
        inventory = write_inventory(
            survey_folder(session, uri),
            cluster_id=session.cluster_id,
            connection=connection,
            artifact=name,
            created_at_ms=now_ms,
            topics=found.topics,
            partitions=found.partitions,
            segments=found.segments(),
            totals=found.totals,
            folded=topic.folded,
            price=price,
        )
    totals = inventory.totals
    logger.info(
        "inventory %s: %s, %d of them gone; %s, %s stored, %s, %s orphaned",
        inventory.generation,
        number_of(totals.topics, "topic"),
        totals.orphaned_topics,
        number_of(totals.stored.segments, "segment"),
        human_bytes(totals.stored.bytes),
        number_of(totals.orphaned.segments, "segment"),
        human_bytes(totals.orphaned.bytes),
    )
    for why in filter(None, (totals.why_not_all_seen, totals.why_not_all_sized)):
        logger.warning("%s", why)
    return inventory
