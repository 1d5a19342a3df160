# SPDX-License-Identifier: Apache-2.0
"""Other retention settings: how the Spark job is told of them, and what it says of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from airflow_provider_rlmm.core.plans.plan_files import read_document
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.settings import NO_PRICE, price_per_gb_month

logger = logging.getLogger(__name__)


def what_if_words(settings: Sequence[str], connection: RemoteLogSettings) -> list[str]:
    """
    Return the words of the job's command line that name settings, and the price by which costs are reckoned; say which it is.

    :param settings: as people write them; where there are none, there are no words.
    :param connection: what the connection says.
    :raises ConfigurationError: if a price cannot be read.
    """
    words = [word for text in settings for word in ("--what-if", text)]
    if not words:
        return []
    price = connection.storage_price(otherwise=price_per_gb_month())
    logger.info("%s", f"costs are {price.in_words}" if price else NO_PRICE)
    return words if price is None else [*words, "--price-micros", str(price.micros_per_gb_month)]


def what_was_tried(uri: str) -> dict[str, Any]:
    """
    Return what the job has said of settings, in short.

    :param uri: of the run's folder.
    :raises PlanError: if the job has left no document.
    :raises DocumentError: if it cannot be read.
    """
    from airflow_provider_rlmm.features.retention.spark.what_if_document import (
        MAX_BYTES,
        WHAT_IF_DOCUMENT,
        WhatIfDocument,
    )

    document = WhatIfDocument.from_json(read_document(uri, WHAT_IF_DOCUMENT, MAX_BYTES))
    return {**document.in_short(), "document": f"{uri}/{WHAT_IF_DOCUMENT}"}
