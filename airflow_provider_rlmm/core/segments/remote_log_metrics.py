# SPDX-License-Identifier: Apache-2.0
"""
What reading and copying remote logs says in numbers, under the names of Kafka's own metrics.

A broker tells rates. Here each task adds what it has done to a sum, and the collector of the sums makes rates of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_rlmm.core.base.metric import Description, Metric, MetricType

_TOPIC: Final = ("connection", "topic")

REMOTE_LOG_METRICS: Final[Mapping[str, Description]] = {
    "RemoteFetchBytesPerSec": Description(MetricType.COUNTER, _TOPIC, "Bytes of logs fetched from remote storage"),
    "RemoteFetchRequestsPerSec": Description(
        MetricType.COUNTER, _TOPIC, "Requests for parts of logs, those that failed among them"
    ),
    "RemoteFetchErrorsPerSec": Description(MetricType.COUNTER, _TOPIC, "Requests for parts of logs that failed"),
    "RemoteCopyBytesPerSec": Description(MetricType.COUNTER, _TOPIC, "Bytes of logs copied to remote storage"),
    "RemoteCopyRequestsPerSec": Description(MetricType.COUNTER, _TOPIC, "Segments whose copy was begun"),
    "RemoteCopyErrorsPerSec": Description(MetricType.COUNTER, _TOPIC, "Segments whose copy failed"),
    "RemoteCopyLagBytes": Description(
        MetricType.GAUGE, _TOPIC, "Bytes of logs that are still to be copied, of the partition that was looked at last"
    ),
    "RemoteCopyLagSegments": Description(
        MetricType.GAUGE, _TOPIC, "Segments that are still to be copied, of the partition that was looked at last"
    ),
}
"""Name, without :data:`~airflow_provider_rlmm.core.base.metric.PREFIX` → what it means."""


def remote_log_metrics(values: Mapping[str, int], connection: str, topic: str) -> tuple[Metric, ...]:
    """
    Return what one task has done to a topic; sums that are 0 are left out, and levels of what was not done.

    :param values: name → value, as counted by one task.
    :param connection: by which the cluster is reached.
    :param topic: name of the topic.
    """
    labels = {"connection": connection, "topic": topic}
    copies = bool(values.get("RemoteCopyRequestsPerSec"))
    return tuple(
        Metric(name, values[name], labels)
        for name, about in REMOTE_LOG_METRICS.items()
        if values.get(name) or (copies and about.type is MetricType.GAUGE and name in values)
    )
