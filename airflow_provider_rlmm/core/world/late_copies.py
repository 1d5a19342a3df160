# SPDX-License-Identifier: Apache-2.0
"""Living topics that are copied late: that nothing new of them is in remote storage proves nothing."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_rlmm.core.base.errors import EventLogError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.protocol import ClusterTopics

_NAMED = 3


def late_copies(topics: ClusterTopics, names: Collection[str]) -> str:
    """
    Say which living topics have a copy lag, or may have one; empty where all are copied as soon as a segment is closed.

    It is asked where something was not found, to say what may be the cause: so a cluster that does not answer is said, too.

    :param topics: the cluster.
    :param names: of topics that exist; those that are not tiered are left out.
    """
    try:
        lags = topics.copy_lags(names)
    except EventLogError as e:
        return f"whether living topics are copied late is not known: {e}"
    if not lags:
        return ""
    named = [f"{in_quotes(name)} ({lag})" for name, lag in sorted(lags.items())[:_NAMED]]
    more = f" and {len(lags) - _NAMED} more" if len(lags) > _NAMED else ""
    return (
        "a topic with a copy lag may have no newer copy yet, and these living topics have such a lag or may have one: "
        f"{', '.join(named)}{more}"
    )
