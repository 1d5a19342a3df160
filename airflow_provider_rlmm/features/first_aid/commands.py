# SPDX-License-Identifier: Apache-2.0
"""The lines that a person types to switch copying off, and to have it again as it was. Pure: nothing is run here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COPY_DISABLE: Final = "remote.log.copy.disable"
LOCAL_RETENTION_MS: Final = "local.retention.ms"
LOCAL_RETENTION_BYTES: Final = "local.retention.bytes"

COPYING_OFF: Final = {COPY_DISABLE: "true", LOCAL_RETENTION_MS: "-2", LOCAL_RETENTION_BYTES: "-2"}
"""
In one alter: Kafka refuses the first while local retention is another than that of the topic
(``LogConfig.validateRetentionConfigsWhenRemoteCopyDisabled``).
"""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_VALUE = re.compile(r"-?[0-9]+|true|false")


@dataclass(frozen=True, slots=True)
class Tools:
    """
    How Kafka's own tools reach the cluster.

    :param bootstrap_server: as a person has named it.
    :param command_config: file of properties with the login, ``None`` where none was named.
    """

    bootstrap_server: str
    command_config: str | None = None

    def copying_off(self, topic: str) -> tuple[str, ...]:
        """
        Return the words that switch off copying of a topic and keep everything on the brokers' disks that is there.

        :param topic: its name.
        :raises ValueError: if no topic can have this name.
        """
        return self._alter(topic, "--add-config", _pairs(COPYING_OFF))

    def as_today(self, topic: str, today: Mapping[str, str | None]) -> tuple[str, ...]:
        """
        Return the words that give a topic the settings back that it has today.

        :param topic: its name.
        :param today: each of :data:`COPYING_OFF` → what is set for this topic, ``None`` where it has the broker's value.
        :raises ValueError: if no topic can have this name, or a setting this value.
        """
        own = {name: value for name, value in today.items() if value is not None}
        if wrong := [name for name, value in own.items() if not _VALUE.fullmatch(value)]:
            raise ValueError(f"{wrong[0]} has a value that it cannot have")
        words = ("--add-config", _pairs(own)) if own else ()
        without = [name for name in today if name not in own]
        return self._alter(topic, *words, *(("--delete-config", ",".join(without)) if without else ()))

    def log_directories(self) -> tuple[str, ...]:
        """Return the words that print what lies on the brokers' disks."""
        return ("kafka-log-dirs.sh", *self._reach(), "--describe")

    def _alter(self, topic: str, *words: str) -> tuple[str, ...]:
        if not _NAME.fullmatch(topic):
            raise ValueError("no topic can have this name")
        # One word: a name may begin with a dash, and would read as an option.
        whom = ("--alter", "--entity-type", "topics", f"--entity-name={topic}")
        return ("kafka-configs.sh", *self._reach(), *whom, *words)

    def _reach(self) -> tuple[str, ...]:
        login = ("--command-config", self.command_config) if self.command_config else ()
        return ("--bootstrap-server", self.bootstrap_server, *login)


def line_of(words: tuple[str, ...]) -> str:
    """
    Return words as one line of a shell, each of which arrives as it is.

    :param words: of a command.
    """
    return shlex.join(words)


def _pairs(settings: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in settings.items())
