# SPDX-License-Identifier: Apache-2.0
"""Where people say that they know of a problem: an Airflow variable."""

from __future__ import annotations

import logging

from airflow.sdk import Variable

from airflow_provider_rlmm.policy.attention import (
    Acknowledgements,
    read_acknowledgements,
    unreadable_acknowledgements,
)

ACKNOWLEDGEMENTS_VARIABLE = "rlmm_acknowledgements"
"""A JSON list of :data:`~airflow_provider_rlmm.policy.attention.FIELDS`, as the report suggests them."""

logger = logging.getLogger(__name__)

_SOURCE = f"Airflow variable {ACKNOWLEDGEMENTS_VARIABLE}"


def acknowledgements(now_ms: int) -> Acknowledgements:
    """
    Return what people have said; that it cannot be read is a problem of its own, that there is nothing is none.

    :param now_ms: ms since the epoch.
    """
    try:
        text = Variable.get(ACKNOWLEDGEMENTS_VARIABLE, default=None)
    except Exception as e:
        # Whatever a secrets backend raises: its words stay in the log, where Airflow masks secrets.
        logger.exception("%s cannot be read", _SOURCE)
        return Acknowledgements(problems=(unreadable_acknowledgements(_SOURCE, f"{type(e).__name__}, see the log"),))
    return read_acknowledgements(text, now_ms, _SOURCE)
