# SPDX-License-Identifier: Apache-2.0
"""
The alarm for what does not happen: no run of the cleaner has ended green for some time.

It goes by the summaries that runs keep. What cannot be read, is another connection's, is for some topics only or comes
from the future counts as no run: a doubt rings the alarm, and never silences it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS, MAX_CLOCK_SKEW_MS, since
from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.overview.run_summary import RunKind, RunOutcome, RunSummary

WATCH_FORMAT = 1
MAX_WATCH_BYTES = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Watch:
    """
    Since when a connection has been watched, as its first look wrote it down.

    :param cluster_id: the cluster.
    :param connection: connection of type ``rlmm``.
    :param since_ms: ms since the epoch.
    """

    cluster_id: Text
    connection: Text
    since_ms: int

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict.sealed(plain_of(self), WATCH_FORMAT), indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Watch:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, WATCH_FORMAT), "watch")
        except ValueError as e:
            raise DocumentError(f"it cannot be read ({e})") from e


@dataclass(frozen=True, slots=True)
class Alarm:
    """
    What the alarm says.

    :param rings: whether a person has to look.
    :param why: in one sentence.
    """

    rings: bool
    why: str


def last_success(runs: Iterable[RunSummary], watch: Watch, *, real: bool, now_ms: int) -> RunSummary | None:
    """
    Return the newest run of the cleaner that ended green and counts.

    :param runs: summaries, the newest first.
    :param watch: what is watched.
    :param real: whether dry runs do not count.
    :param now_ms: ms since the epoch.
    """
    for run in runs:
        ours = (run.cluster_id, run.connection) == (watch.cluster_id, watch.connection)
        # One from the future would keep the alarm silent until then.
        believed = run.ended_at_ms <= now_ms + MAX_CLOCK_SKEW_MS
        counts = run.kind is RunKind.CLEANER and run.outcome is RunOutcome.SUCCESS and not (real and run.dry_run)
        # One for some topics says nothing of the others.
        if ours and believed and counts and not run.only:
            return run
    return None


def judge(last: RunSummary | None, watch: Watch, *, real: bool, after_ms: int, now_ms: int) -> Alarm:
    """
    Tell whether the alarm rings.

    :param last: the newest run that counts, ``None`` where there is none.
    :param watch: what is watched, and since when.
    :param real: whether dry runs do not count.
    :param after_ms: for how long there may be no such run.
    :param now_ms: ms since the epoch.
    """
    kind = "real run" if real else "run"
    where = f"cluster {watch.cluster_id}, connection {watch.connection}"
    if last is not None:
        at = f"{in_quotes(last.run_id)} of {last.dag_id}, at {since(last.ended_at_ms)}"
        if now_ms - last.ended_at_ms <= after_ms:
            return Alarm(False, f"the last {kind} of the cleaner that ended green on {where} is {at}")
        missed = f"no {kind} of the cleaner has ended green for {_days(after_ms)} on {where}; the last one was {at}"
        return Alarm(True, missed)
    if watch.since_ms > now_ms + MAX_CLOCK_SKEW_MS:
        return Alarm(
            True, f"{where} is watched since {since(watch.since_ms)}, which has not come yet: a clock was wrong"
        )
    if now_ms - watch.since_ms > after_ms:
        begun = since(watch.since_ms)
        return Alarm(True, f"no {kind} of the cleaner has ended green on {where} since it has been watched, {begun}")
    rings = since(watch.since_ms + after_ms)
    return Alarm(False, f"no {kind} of the cleaner has ended green on {where} yet; the alarm rings from {rings} on")


def _days(milliseconds: int) -> str:
    days = milliseconds // DAY_MS
    return number_of(days, "day")


_READ = reader_of(Watch)
