# SPDX-License-Identifier: Apache-2.0
"""
The REST server of a standalone Spark master: it starts drivers on workers, and says how they are.

``spark-submit`` refuses Python programs in cluster mode on a standalone cluster. Spark's own page of this server submits them
by way of ``SparkSubmit`` as the main class of a driver, which a worker starts: "Spark Standalone Mode", section "REST API".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from airflow_provider_rlmm.core.base.errors import ConfigurationError, SparkMasterError
from airflow_provider_rlmm.core.base.quoting import in_quotes, printable

DRIVER_CLASS: Final = "org.apache.spark.deploy.SparkSubmit"
ACTIVE: Final = frozenset({"SUBMITTED", "RUNNING", "RELAUNCHING", "UNKNOWN"})
"""States of a driver that go on; UNKNOWN is what a master says while it recovers."""
FINISHED: Final = "FINISHED"
NOT_FOUND: Final = "NOT_FOUND"
"""What :meth:`SparkMaster.state` says of a driver that no master knows, or not any more."""

_TIMEOUT_S: Final = 20.0
_MAX_BYTES: Final = 2**20
_MAX_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class SparkMaster:
    """
    The masters of one standalone cluster; one of them leads.

    :param addresses: ``scheme://host:port`` of the REST server of each.
    """

    addresses: tuple[str, ...]

    @classmethod
    def of(cls, conn_id: str, connection: Mapping[str, Any]) -> SparkMaster:
        """
        Read what the Spark provider has made of a connection.

        :param conn_id: the connection, for messages.
        :param connection: with ``master``, ``rest_scheme`` and ``rest_port``.
        :raises ConfigurationError: if it is no standalone cluster.
        """
        master = str(connection["master"])
        if not master.startswith("spark://"):
            raise ConfigurationError(
                f"connection {conn_id!r}: deploy-mode is cluster, and its master is {in_quotes(master)}: that was seen to "
                "work on standalone clusters only (spark://host:7077); set deploy-mode to client"
            )
        scheme, port = connection.get("rest_scheme", "http"), connection.get("rest_port", 6066)
        hosts = [part.strip().rpartition(":")[0] or part.strip() for part in master[len("spark://") :].split(",")]
        return cls(tuple(f"{scheme}://{host}:{port}" for host in hosts))

    def submit(self, master: str, name: str, arguments: Sequence[str], driver: Mapping[str, str], version: str) -> str:
        """
        Have a worker start a driver, and return its id.

        :param master: URL of the masters, which the driver's own program connects to.
        :param name: of the application.
        :param arguments: of ``SparkSubmit``.
        :param driver: properties of the driver's process, such as ``spark.driver.memory``.
        :param version: of the Spark that asks.
        :raises SparkMasterError: if no master takes it; it was not started then, or its id is not known.
        """
        document = {
            "action": "CreateSubmissionRequest",
            "appResource": "",
            "mainClass": DRIVER_CLASS,
            "appArgs": list(arguments),
            "clientSparkVersion": version,
            "environmentVariables": {},
            "sparkProperties": {"spark.app.name": name, "spark.master": master, **driver},
        }
        answer = self._ask("POST", "create", document)
        driver_id = answer.get("submissionId")
        if answer.get("success") is not True or not isinstance(driver_id, str) or not driver_id:
            raise SparkMasterError(f"the Spark master took no driver: {_said(answer)}")
        return driver_id

    def state(self, driver_id: str) -> str:
        """
        Return the state of a driver, one of Spark's names or :data:`NOT_FOUND`.

        :param driver_id: what :meth:`submit` returned.
        :raises SparkMasterError: if no master that leads answers: one that stands by, or recovers, knows no driver.
        """
        answer = self._ask("GET", f"status/{quote(driver_id, safe='')}")
        state = answer.get("driverState")
        if answer.get("success") is True and isinstance(state, str):
            return state
        if answer.get("message"):
            # A master that leads and does not know the driver gives no reason.
            raise SparkMasterError(f"no Spark master says what became of driver {driver_id}: {_said(answer)}")
        return NOT_FOUND

    def kill(self, driver_id: str) -> None:
        """
        End a driver, with all that its program has started.

        :param driver_id: what :meth:`submit` returned.
        :raises SparkMasterError: if no master answers.
        """
        self._ask("POST", f"kill/{quote(driver_id, safe='')}")

    def _ask(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the answer of the master that leads: the others answer without success."""
        answers, failures = [], []
        for address in self.addresses:
            try:
                answers.append(_answer(method, f"{address}/v1/submissions/{path}", document))
            except (OSError, ValueError) as e:
                failures.append(f"{address}: {printable(str(e) or type(e).__name__, _MAX_TEXT)}")
                continue
            if answers[-1].get("success") is True:
                break
        if not answers:
            raise SparkMasterError(
                f"no Spark master answers ({'; '.join(failures)}): its REST server must be on (spark.master.rest.enabled), "
                "and the connection's extra rest-port name its port where that is not 6066"
            )
        return next(
            (answer for answer in answers if answer.get("success") is True or not answer.get("message")), answers[-1]
        )


def _answer(method: str, url: str, document: Mapping[str, Any] | None) -> Mapping[str, Any]:
    import httpx

    try:
        with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False) as client:
            response = client.request(method, url, json=document)
    except httpx.HTTPError as e:
        raise OSError(str(e) or type(e).__name__) from None
    if len(response.content) > _MAX_BYTES:
        raise ValueError(f"its answer has {len(response.content)} bytes")
    # What went wrong stands in the document, with any status.
    answer = json.loads(response.content)
    if not isinstance(answer, Mapping):
        raise ValueError(f"its answer is no object (status {response.status_code})")
    return answer


def _said(answer: Mapping[str, Any]) -> str:
    return printable(str(answer.get("message") or "it gives no reason"), _MAX_TEXT)
