# SPDX-License-Identifier: Apache-2.0
"""
Metrics by way of Airflow's own Stats: StatsD, Datadog or OpenTelemetry, as ``[metrics]`` says.

Plain StatsD has no tags: Airflow leaves them away, and two clusters would write into one series. There the labels are part of
the name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.metric import PREFIX, Metric, MetricType
from airflow_provider_rlmm.core.segments.remote_log_metrics import REMOTE_LOG_METRICS, remote_log_metrics
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.overview.run_metrics import METRICS, leader_metrics, metrics_of, survey_metrics
from airflow_provider_rlmm.overview.run_summary import RunSummary

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders

logger = logging.getLogger(__name__)

_KNOWN = {**METRICS, **REMOTE_LOG_METRICS}
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


def send_metrics(summary: RunSummary) -> None:
    """Send what a run says in numbers. A failure is a line in the log: no run ends for it."""
    _send_all(lambda: metrics_of(summary), summary.cluster_id)


def send_survey_metrics(inventory: Inventory) -> None:
    """
    Send what a survey says of its cluster in numbers, as :func:`send_metrics`.

    :param inventory: what it has written.
    """
    _send_all(lambda: survey_metrics(inventory), inventory.cluster_id)


def send_leader_metrics(report: ReportedLeaders) -> None:
    """
    Send what leaders delete next in numbers, as :func:`send_metrics`.

    :param report: what was told.
    """
    _send_all(lambda: leader_metrics(report), report.cluster_id)


def send_remote_log_metrics(counted: Iterable[tuple[str, int]], cluster_id: str, connection: str, topic: str) -> None:
    """
    Send what was fetched or copied of a topic, as :func:`send_metrics`; what was never counted is left out.

    :param counted: Kafka's names of metrics with their values.
    :param cluster_id: the cluster.
    :param connection: by which it is reached.
    :param topic: name of the topic.
    """
    _send_all(lambda: remote_log_metrics(dict(counted), connection, topic), cluster_id)


def _send_all(metrics: Callable[[], Iterable[Metric]], cluster_id: str) -> None:
    try:
        tagged = _tags_are_sent()
        for metric in metrics():
            _send(metric, cluster_id, tagged)
    except Exception:
        logger.warning("The metrics of this task were not sent, or not all of them", exc_info=True)


def _send(metric: Metric, cluster_id: str, tagged: bool) -> None:
    from airflow.providers.common.compat.sdk import Stats

    name = f"{PREFIX}.{metric.name}" if tagged else plain_name(metric)
    tags = {**metric.labels, "cluster_id": cluster_id} if tagged else None
    if _KNOWN[metric.name].type is MetricType.COUNTER:
        Stats.incr(name, int(metric.value), tags=tags)
    else:
        Stats.gauge(name, metric.value, tags=tags)


def plain_name(metric: Metric) -> str:
    """Return the name of a series where there are no tags: the values of its labels follow, in their order."""
    values = (_NOT_IN_A_NAME.sub("_", value) for value in metric.labels.values())
    return ".".join([PREFIX, metric.name, *values])


def _tags_are_sent() -> bool:
    """Tell whether Airflow hands tags on; in the order in which it looks for the receiver itself."""
    from airflow.providers.common.compat.sdk import conf

    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return bool(conf.getboolean("metrics", "statsd_datadog_metrics_tags", fallback=True))
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return bool(conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False))
    return True
