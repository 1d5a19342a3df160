# SPDX-License-Identifier: Apache-2.0
"""Whether the second place of snapshots has what it should: every cleanup asks, as nothing else would miss it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SecondPlace:
    """
    The second place of snapshots.

    :param uri: of its folder, ``None`` where the settings name none.
    :param why: why it lacks snapshots, empty where it has them.
    """

    uri: str | None
    why: str = ""

    def __str__(self) -> str:
        if self.uri is None:
            return "no second place of snapshots is named (snapshots_uri)"
        return self._sentence if self.why else f"the earlier snapshots of the metadata topic lie in {self.uri}, too"

    @property
    def _sentence(self) -> str:
        return f"the earlier snapshots of the metadata topic cannot be copied to {self.uri}: {self.why}"

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What needs a person: a place that lacks snapshots."""
        if not self.why:
            return ()
        what_to_do = "make snapshots_uri a folder that every worker can list and write, or leave it out"
        return (Refusal("the second place of snapshots", self._sentence, what_to_do, RefusalKind.OTHER),)


def second_place(session: CleanerSession) -> SecondPlace:
    """
    Copy to the second place what it lacks, and tell whether that went well.

    :param session: of the run.
    """
    snapshots = session.snapshots
    try:
        snapshots.copy_to_second()
    except (OSError, ConfigurationError) as e:
        logger.error("the second place of snapshots, %s, lacks some of them: %s", snapshots.second, e)
        return SecondPlace(snapshots.second, str(e))
    return SecondPlace(snapshots.second)
