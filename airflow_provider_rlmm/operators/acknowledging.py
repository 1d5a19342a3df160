# SPDX-License-Identifier: Apache-2.0
"""Where people say that they know of a problem: an Airflow variable."""

from __future__ import annotations

import json
import logging
from typing import Any

from airflow.sdk import Variable

from airflow_provider_rlmm.policy.attention import (
    Acknowledgements,
    Judgement,
    read_acknowledgements,
    unreadable_acknowledgements,
)

ACKNOWLEDGEMENTS_VARIABLE = "rlmm_acknowledgements"
"""A JSON list of :data:`~airflow_provider_rlmm.policy.attention.FIELDS`, as the report suggests them."""

HOW_TO_ACKNOWLEDGE = (
    "To let a problem be for a while, put its JSON from the log above, signed by you, into the Airflow variable "
    f"{ACKNOWLEDGEMENTS_VARIABLE}, a JSON list"
)
"""Ends the error of a task that fails because something needs a person, after :func:`say_judgement`."""

logger = logging.getLogger(__name__)

_SOURCE = f"Airflow variable {ACKNOWLEDGEMENTS_VARIABLE}"


def acknowledgements(now_ms: int) -> Acknowledgements:
    """
    Return what people have said. A list that cannot be read is a problem of its own; no list is none.

    :param now_ms: ms since the epoch.
    """
    try:
        text = Variable.get(ACKNOWLEDGEMENTS_VARIABLE, default=None)
    except Exception as e:
        # Whatever a secrets backend raises: its words stay in the log, where Airflow masks secrets.
        logger.exception("%s cannot be read", _SOURCE)
        return Acknowledgements(problems=(unreadable_acknowledgements(_SOURCE, f"{type(e).__name__}, see the log"),))
    return read_acknowledgements(text, now_ms, _SOURCE)


def say_judgement(log: Any, judgement: Judgement, cluster_id: str, now_ms: int) -> None:
    """
    Say in a task's log what needs a person, what would acknowledge it, and what has been acknowledged.

    :param log: the logger of the task.
    :param judgement: what fails the run, and what would have.
    :param cluster_id: the cluster, for the acknowledgements that are suggested.
    :param now_ms: ms since the epoch.
    """
    for seen in judgement.acknowledged:
        log.warning("acknowledged: %s", seen.attention)
    for judged in judgement.failing:
        suggested = judged.suggestion(cluster_id, now_ms)
        how = f"To acknowledge it: {json.dumps(suggested)}" if suggested else "It cannot be acknowledged"
        log.error("needs a person: %s. What to do: %s. %s", judged.attention, judged.attention.what_to_do, how)
