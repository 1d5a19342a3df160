# SPDX-License-Identifier: Apache-2.0
"""The dead-man alarm as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.clock import DAY_MS, system_clock
from airflow_provider_rlmm.core.base.declarations import Declared
from airflow_provider_rlmm.core.base.file_systems import folder_in_words
from airflow_provider_rlmm.core.runs.connection_fields import ScheduledRuns
from airflow_provider_rlmm.core.runs.installation_options import ALARM_AFTER_DAYS
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.notifications.configured import configured_notifier
from airflow_provider_rlmm.observability.lineage import Touched
from airflow_provider_rlmm.operators.arguments import declared_as, read_by, text
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.settings import alarm_after_days, work_uri

__all__ = ["RemoteLogDeadManOperator"]


AFTER_DAYS: Final[Declared[int | None]] = Declared(
    name="after_days",
    kind=ALARM_AFTER_DAYS.kind,
    default=None,
    sentence=ALARM_AFTER_DAYS.sentence,
    absent="what Airflow's configuration says",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeadManArguments:
    after_days: int | None = declared_as(AFTER_DAYS)
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class RemoteLogDeadManOperator(CheckedOperator[_DeadManArguments]):
    """
    Fail where no run of the cleaner has ended green for some days.

    The first look at a connection is noted in the work folder: where no run has ended green yet, the days are counted from
    then on. Nothing else is changed.

    Where the connection's ``scheduled_runs`` is ``real``, dry runs do not count. Where it names ``expected_cluster_id``, no
    broker is asked. It also fails where ``[rlmm] notifier`` cannot be imported: a notifier that is not there calls no person.

    :param after_days: how many days; ``None`` for ``[rlmm] alarm_after_days``. 0 switches the alarm off.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: why the alarm does not ring, in one sentence.
    :raises AirflowFailException: if it rings: since when, and what to do.
    :raises ConfigurationError: if the setting or the notifier cannot be used.
    :raises DocumentError: if it cannot be told since when the connection is watched.
    """

    template_fields: Sequence[str] = ("after_days", "rlmm_conn_id")
    arguments = _DeadManArguments
    ui_color = "#f9e2c8"
    touched = Touched()

    def __init__(
        self, *, after_days: int | str | None = None, rlmm_conn_id: str = "rlmm_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.after_days = after_days
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> str:
        from airflow_provider_rlmm.observability.dead_man import dead_man_alarm

        read = self.read_arguments()
        configured_notifier()
        days = alarm_after_days() if read.after_days is None else read.after_days
        if not days:
            return "the alarm is switched off: its number of days is 0"
        hook = RemoteLogMetadataHook(read.rlmm_conn_id)
        settings = hook.get_connection_settings()
        real = ScheduledRuns.of(settings.scheduled_runs) is ScheduledRuns.REAL
        alarm = dead_man_alarm(
            work_uri(),
            settings.expected_cluster_id or hook.get_cluster().cluster_id,
            read.rlmm_conn_id,
            real=real,
            after_ms=days * DAY_MS,
            now_ms=system_clock(),
        )
        if alarm.rings:
            dry = ", and are they real" if real else ""
            raise AirflowFailException(
                f"{alarm.why}. It was looked for in the work folder {folder_in_words(work_uri())}. What to do: look at the "
                f"runs of the cleaner: is its DAG paused, do its runs begin, do they end green{dry}? Where they are meant to "
                "be rarer, set [rlmm] alarm_after_days"
            )
        self.log.info("%s", alarm.why)
        return alarm.why
