# SPDX-License-Identifier: Apache-2.0
"""
Which cluster is behind a list of addresses: asked of each address alone, before anything is read or written.

A Kafka client takes any address of its list, again for each connection. With brokers of two clusters in one list, one client
may read the log of the one and another client list the topics of the other. So every address has to name the same cluster,
and all clients of a run start from the addresses that this cluster itself advertises.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    EventLogAccessError,
    EventLogError,
    EventLogUnavailableError,
)
from airflow_provider_rlmm.core.log.kafka.client import REQUEST_TIMEOUT_S, KafkaAdmin
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.listening import Listening

_POLL_S = 0.05
_STRAGGLERS_S = 5.0
"""How long the other addresses are waited for once one has answered: a broker that is down must not cost a full time-out."""

_WHAT = "asking for the cluster id"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VerifiedCluster:
    """
    A cluster that every address which answered has named.

    :param cluster_id: its id.
    :param config: the client properties, starting from the addresses that the cluster advertises.
    :param answered: the given addresses that named it.
    :param silent: the given addresses that did not answer. They are not used, so it does not matter what is behind them.
    """

    cluster_id: str
    config: KafkaClientConfig
    answered: tuple[str, ...]
    silent: tuple[str, ...]

    def __str__(self) -> str:
        silent = f"; no answer from {', '.join(self.silent)}, which is not used" if self.silent else ""
        given = len(self.answered) + len(self.silent)
        asked = f"{len(self.answered)} of {number_of(given, 'given address', 'given addresses')}, each asked alone"
        return f"cluster {self.cluster_id}, named by {asked}: {', '.join(self.answered)}{silent}"


def verify_cluster(
    config: KafkaClientConfig, *, request_timeout_s: float = REQUEST_TIMEOUT_S, listening: Listening | None = None
) -> VerifiedCluster:
    """
    Ask each address of the bootstrap list alone for its cluster id.

    :param config: the clients' properties.
    :param request_timeout_s: seconds until the first address must have answered.
    :param listening: says who is silent, and ends the wait for addresses where no broker listens; ``None`` waits for them, as
        one may soon.
    :raises ClusterMismatchError: if two addresses name different clusters.
    :raises EventLogAccessError: if an address refuses the login: what is behind it would be used and cannot be verified.
    :raises EventLogUnavailableError: if no address answers.
    """
    addresses = config.bootstrap_addresses
    answers = _ask_each(config, addresses, request_timeout_s, listening)
    for error in answers.values():
        if isinstance(error, EventLogAccessError):
            raise error
    named = {address: answer for address, answer in answers.items() if not isinstance(answer, EventLogError)}
    if not named:
        raise _nobody([answer for answer in answers.values() if isinstance(answer, EventLogError)])
    if len({str(cluster.cluster_id) for cluster in named.values()}) > 1:
        listed = ", ".join(f"{address} is of cluster {cluster.cluster_id}" for address, cluster in named.items())
        raise ClusterMismatchError(
            f"bootstrap.servers names different clusters: {listed}; name the brokers of one cluster only in the Kafka "
            "connection"
        )
    cluster = next(iter(named.values()))
    nodes = {(node.host, node.port) for c in named.values() for node in c.nodes}
    advertised = sorted(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in nodes)
    verified = VerifiedCluster(
        str(cluster.cluster_id),
        replace(config, properties={**config.properties, "bootstrap.servers": ",".join(advertised)}),
        tuple(named),
        tuple(address for address in addresses if address not in named),
    )
    _logger.info("%s", verified)
    return verified


def _ask_each(
    config: KafkaClientConfig, addresses: Sequence[str], timeout_s: float, listening: Listening | None
) -> Mapping[str, Any | EventLogError]:
    """Return per address what describing the cluster answered, or why it did not; all are asked at the same time."""
    admins = {
        address: KafkaAdmin(replace(config, properties={**config.properties, "bootstrap.servers": address}), timeout_s)
        for address in addresses
    }
    futures: dict[str, Future[Any]] = {
        address: admin.client.describe_cluster(request_timeout=timeout_s) for address, admin in admins.items()
    }
    deadline = time.monotonic() + timeout_s
    while pending := wait(futures.values(), timeout=_POLL_S).not_done:
        for admin in admins.values():
            admin.client.poll(0)
        unanswered = {a: admins[a].watch for a, future in futures.items() if future in pending}
        if any(future.done() and future.exception() is None for future in futures.values()):
            deadline = min(deadline, time.monotonic() + _STRAGGLERS_S)
        if all(watch.access_denied for watch in unanswered.values()) or time.monotonic() > deadline:
            break
        if listening is not None and listening.is_useless(unanswered):
            break
    return {address: _answer(admins[address], future) for address, future in futures.items()}


def _nobody(errors: Sequence[EventLogError]) -> EventLogError:
    if len(errors) == 1:
        return errors[0]
    return EventLogUnavailableError(
        f"none of {number_of(len(errors), 'address', 'addresses')} answers: {'; '.join(map(str, errors))}"
    )


def _answer(admin: KafkaAdmin, future: Future[Any]) -> Any | EventLogError:
    try:
        if not future.done():
            admin.watch.raise_if_denied(_WHAT)
            return admin.watch.error(_WHAT, "no answer came")
    except EventLogAccessError as denied:
        return denied
    # Raised, it would hold this frame and its callers' until the next collection.
    if isinstance(error := future.exception(), KafkaException):
        silent = error.args[0].code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}
        return admin.watch.error(_WHAT, "no answer came" if silent else error.args[0])
    return future.result()
