# SPDX-License-Identifier: Apache-2.0
"""
Whether anybody listens at addresses from which a Kafka client has had no answer, and who waits for them.

librdkafka tries an address again for as long as it is asked to, also one that refuses every connection. Of one that takes a
connection and then says nothing it reports nothing at all. So such addresses are looked at with a bare connection, over which
nothing is sent. ``docs/troubleshooting.md`` says what is printed.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch

SAY_AFTER_S: Final = 4.0
"""Seconds without an answer after which it is said who is silent."""

waiting_logger = logging.getLogger(f"{__name__}.waiting")
"""Says for whom a call waits. The command always shows its lines."""

_LOOK_S = 1.0
_AGAIN_S = 1.0
_DEFAULT_PORT = 9092
_NAME_UNKNOWN = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


@dataclass(frozen=True, slots=True)
class Look:
    """
    What a bare connection to an address found.

    :param no_listener: it is certain that no broker listens there: each address of the host refuses, or the host has none.
    :param text: what was found, in words.
    """

    no_listener: bool
    text: str


_LATE = Look(False, f"takes no connection within {_LOOK_S:g} s: look at the address, and at firewalls on the way")
_TAKES = Look(False, "takes connections")
_REFUSES = Look(True, "refuses connections: no broker listens there")


def look_at(addresses: Iterable[str]) -> dict[str, Look]:
    """
    Connect to each address, all at the same time, and send nothing; this takes a second at most.

    :param addresses: as in ``bootstrap.servers``.
    :return: per address what was found.
    """
    found: dict[str, Look] = {}

    def look(address: str) -> None:
        found[address] = _look_at(address)

    # No call waits for the answer of a name server that does not come: threads of a pool would hold the process until then.
    threads = {address: Thread(target=look, args=(address,), daemon=True) for address in addresses}
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + _LOOK_S
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    return {address: found.get(address, _LATE) for address in threads}


def _look_at(address: str) -> Look:
    parts = urlsplit(f"//{address.rpartition('://')[2]}")
    try:
        with socket.create_connection((parts.hostname, parts.port or _DEFAULT_PORT), _LOOK_S, all_errors=True):
            return _TAKES
    except UnicodeError:
        return Look(True, "is no name that a host can have")
    except socket.gaierror as e:
        if e.errno in _NAME_UNKNOWN:
            return Look(True, f"is no host that is known: {e.strerror}")
        return Look(False, f"cannot be looked up: {e.strerror}")
    except ExceptionGroup as errors:
        # A host may have several: one that is silent may be a broker all the same.
        others = [e for e in errors.exceptions if not isinstance(e, ConnectionRefusedError)]
    if not others:
        return _REFUSES
    if any(isinstance(e, TimeoutError) for e in others):
        return _LATE
    return Look(False, f"cannot be reached: {getattr(others[0], 'strerror', None) or type(others[0]).__name__}")


class Listening:
    """
    Watches for a person in front of a terminal the addresses that have not answered.

    It says once who is silent, and why, and tells when waiting is of no use. A broker that restarts refuses for a while as
    well; the person who has typed the command sees that, and calls it again.
    """

    def __init__(self) -> None:
        self._said = False
        self._started = time.monotonic()
        self._looked = self._started - _AGAIN_S

    def is_useless(self, unanswered: Mapping[str, ClientWatch]) -> bool:
        """
        Look once more, and say after :data:`SAY_AFTER_S` who is silent.

        :param unanswered: per address that has not answered what its client reports.
        :return: whether each of them refuses the login or is certain to have no broker.
        """
        now = time.monotonic()
        waiting = {address: watch for address, watch in unanswered.items() if not watch.access_denied}
        # An address of which nothing is reported may have taken the connection.
        if all(watch.troubled for watch in waiting.values()) and now - self._looked >= _AGAIN_S:
            self._looked = now
            if all(look.no_listener for look in look_at(waiting).values()):
                return True
        if not self._said and now - self._started >= SAY_AFTER_S:
            self._said = True
            looks = look_at(waiting)
            listed = "; ".join(_in_words(a, looks.get(a), watch.reported) for a, watch in unanswered.items())
            waiting_logger.info("no answer for %g s from %s", SAY_AFTER_S, listed)
        return False


def _in_words(address: str, look: Look | None, reported: str | None) -> str:
    found = "which refuses this client" if look is None else f"which {look.text}"
    if look is _TAKES and not reported:
        return f"{address}, {found} and says nothing: look at the port, and at security.protocol"
    return f"{address}, {found}{f' ({reported})' if reported else ''}"
