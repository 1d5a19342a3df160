# SPDX-License-Identifier: Apache-2.0
"""
Which Kafka a broker runs, as far as the names of its settings tell: no call of a client answers a broker's version.

A broker lists the settings that its version knows. So one that lists a setting is as new as the setting, and one that lists
an older setting without a newer one is older than that. What patch release it is nothing tells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_NAMED = 10

Version = tuple[int, ...]
"""Of Kafka: major, minor, and patch where it matters."""

SETTINGS_SINCE: Final[Mapping[str, Version]] = {
    "log.local.retention.ms": (3, 6),  # KIP-405
    "log.remote.copy.lag.ms": (4, 4),  # KIP-1241
}
"""Setting of a broker → the version that brought it, in the order of the versions. The configurations of 4.3.1 and
4.4.0 list them so, and what running brokers list is compared by ``tests/matrix``."""


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """
    What is known of a broker's version.

    :param at_least: the oldest that it may be, inclusive; ``None`` where nothing is known: it did not answer, or withholds.
    :param below: the version that it is older than, ``None`` where nothing bounds it.
    """

    at_least: Version | None = None
    below: Version | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything is known of it."""
        return self.at_least is not None

    def has_all_of(self, version: Version) -> bool:
        """Tell whether it certainly is a version or a later one."""
        return self.at_least is not None and self.at_least >= version


def version_of(listed: Collection[str] | None) -> BrokerVersion:
    """
    Tell a broker's version by the settings that it lists.

    Where none of those is listed by which it is told, the listing is not whole: some services show a choice.

    :param listed: names of its settings, ``None`` where it refuses or does not answer.
    """
    marks = list(SETTINGS_SINCE.items())
    known = [at for at, (name, _) in enumerate(marks) if name in (listed or ())]
    if not known:
        return BrokerVersion()
    newer = marks[known[-1] + 1 :]
    return BrokerVersion(marks[known[-1]][1], newer[0][1] if newer else None)


def versions_of(listed: Mapping[int, Collection[str] | None]) -> dict[int, BrokerVersion]:
    """
    Tell the version of each broker.

    :param listed: broker → as for :func:`version_of`.
    """
    return {broker: version_of(names) for broker, names in sorted(listed.items())}


def version_in_text(version: Version) -> str:
    """Return a version as Kafka writes it."""
    return ".".join(map(str, version))


def brokers_in_text(brokers: Sequence[int]) -> str:
    """
    Name some brokers; all are counted.

    :param brokers: their ids, at least one.
    """
    more = f" and {len(brokers) - _NAMED} more" if len(brokers) > _NAMED else ""
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers[:_NAMED]))}{more}"
