# SPDX-License-Identifier: Apache-2.0
"""When the DAGs of a connection run by themselves, as ``[rlmm] …_schedule`` says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import Asset

from airflow_provider_rlmm.assets.by_connection import plan_asset
from airflow_provider_rlmm.core.base.declarations import Declared
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.settings import schedule_of

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

Schedule = str | list[Asset] | Any
"""What a DAG takes for its ``schedule``; timetables are of other classes from Airflow 3.2 on."""


def after_plans(conn_id: str) -> Schedule:
    """
    Return the schedule by which each published plan starts the cleaner.

    :param conn_id: connection of type ``rlmm``.
    """
    return [plan_asset(conn_id)]


def daily_and_after_markers(conn_id: str) -> Schedule:
    """
    Return the schedule by which the markers of others start the cleaner, and each day does.

    A marker is only the first of two observations, so the run that it starts deletes nothing of it yet; and what is written
    while no trigger watches starts none.

    :param conn_id: connection of type ``rlmm``.
    """
    from airflow_provider_rlmm.assets.markers import markers_asset

    try:
        from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
    except ImportError:
        # Airflow 3.1 has them there, and the common-compat provider nowhere.
        from airflow.timetables.assets import AssetOrTimeSchedule  # type: ignore[assignment]  # the same class, elsewhere
        from airflow.timetables.trigger import CronTriggerTimetable  # type: ignore[assignment]  # the same class, elsewhere
    daily = CronTriggerTimetable("@daily", timezone="UTC")
    return AssetOrTimeSchedule(timetable=daily, assets=[markers_asset(conn_id)])


WORDS_OF_THE_CLEANER: Mapping[str, Callable[[str], Schedule]] = {
    "plan": after_plans,
    "markers": daily_and_after_markers,
}
"""Word in ``[rlmm] cleaner_schedule`` → what it means for a connection."""


def schedule(
    option: Declared[str], conn_id: str, words: Mapping[str, Callable[[str], Schedule]] | None = None
) -> Schedule:
    """
    Return the schedule of a DAG.

    :param option: of Airflow's configuration, that says it.
    :param conn_id: connection of type ``rlmm``.
    :param words: word that may be said instead of a time → what it means for a connection.
    :raises ConfigurationError: naming the setting, if it is none of these.
    """
    said, known = schedule_of(option), dict(words or {})
    if said is None:
        return None
    if said in known:
        return known[said](conn_id)
    if said not in PRESETS and not _is_cron(said):
        others = ", ".join(["none", *known])
        allowed = f"a cron expression of five fields, one of {', '.join(PRESETS)}, or one of the words {others}"
        raise refused(f"[rlmm] {option.name}", said, allowed)
    return said


def _is_cron(text: str) -> bool:
    # What Airflow reads them with.
    from croniter import croniter

    return len(text.split()) == 5 and croniter.is_valid(text)
