# SPDX-License-Identifier: Apache-2.0
"""What of old runs may be removed: only what is known to be of this package, and nothing that a run still needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.clock import DAY_MS

_NUMBER = r"(?:0|[1-9][0-9]{0,9})"
_FILE_OF_RUN = re.compile(
    r"(?:summary|check|mark|doctor|report|approval|approval-request|scrub|scrub-plan|scrub-deletion"
    r"|leader-retention|contents|cleaning)\.json"
    r"|(?:scrub|scrub-plan)\.parquet"
    rf"|metadata-partition-{_NUMBER}\.parquet|\.metadata-partition-{_NUMBER}\.parquet\.crc|\.summary\.json\.crc"
    rf"|(?:clean|progress)-{_NUMBER}\.json"
    rf"|step-[a-z]{{1,40}}(?:-{_NUMBER})?\.json"
    r"|failed-[0-9a-f]{16}\.json"
)


def is_file_of_run(name: str) -> bool:
    """Tell whether a run leaves a file of this name in its folder."""
    return _FILE_OF_RUN.fullmatch(name) is not None


def group_of(artifact: str) -> str:
    """
    Return what the runs of one DAG have in common: their folders begin with its id.

    :param artifact: name of the folder of a run.
    """
    return artifact.partition(".")[0]


def cutoff_ms(now_ms: int, keep_days: int) -> int | None:
    """
    Return the time from which on everything stays, ms since the epoch; ``None`` where everything does.

    :param now_ms: ms since the epoch.
    :param keep_days: for how long things stay, days; 0 for ever.
    """
    return now_ms - keep_days * DAY_MS if keep_days > 0 else None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """
    The folder of a run, as its documents say.

    :param artifact: its name.
    :param cluster_id: of the run, ``None`` where it ended before it knew.
    :param newest_ms: when the newest of its documents was written, ms since the epoch.
    :param expires_at_ms: until when its plan may be applied, ms since the epoch; ``None`` where it has none.
    """

    artifact: str
    cluster_id: str | None
    newest_ms: int
    expires_at_ms: int | None

    def may_go(self, cluster_id: str, cutoff: int, now_ms: int, newest: Mapping[str, str]) -> bool:
        """
        Tell whether it may be removed.

        :param cluster_id: whose runs are looked at.
        :param cutoff: what was written from then on stays, ms since the epoch.
        :param now_ms: ms since the epoch.
        :param newest: group → the newest run of it; where none is known, what is there may be the newest.
        """
        if self.cluster_id not in (None, cluster_id) or self.newest_ms >= cutoff:
            return False
        if self.expires_at_ms is not None and self.expires_at_ms > now_ms:
            return False
        return newest.get(group_of(self.artifact), self.artifact) != self.artifact
