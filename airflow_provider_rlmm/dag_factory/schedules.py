# SPDX-License-Identifier: Apache-2.0
"""When the DAGs of a connection run by themselves, as ``[rlmm] …_schedule`` says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow.sdk import Asset

from airflow_provider_rlmm.assets.by_connection import plan_asset
from airflow_provider_rlmm.policy.values import refused
from airflow_provider_rlmm.settings import schedule_of

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

ASSETS_OF_THE_CLEANER: Mapping[str, Callable[[str], Asset]] = {"plan": plan_asset}
"""Word in ``[rlmm] cleaner_schedule`` → the asset of a connection that starts its cleaner."""


def schedule(
    kind: str, default: str, conn_id: str, assets: Mapping[str, Callable[[str], Asset]] | None = None
) -> str | list[Asset] | None:
    """
    Return the schedule of a DAG.

    :param kind: ``cleaner``, ``retention``, ``doctor`` or ``scrub``.
    :param default: where ``[rlmm] <kind>_schedule`` says nothing.
    :param conn_id: connection of type ``rlmm``.
    :param assets: word → asset of a connection, for those that may be said instead of a time.
    :raises ConfigurationError: naming the setting, if it is none of these.
    """
    said, known = schedule_of(kind, default), dict(assets or {})
    if said is None:
        return None
    if said in known:
        return [known[said](conn_id)]
    if said not in PRESETS and not _is_cron(said):
        words = ", ".join(["none", *known])
        allowed = f"a cron expression of five fields, one of {', '.join(PRESETS)}, or one of the words {words}"
        raise refused(f"[rlmm] {kind}_schedule", said, allowed)
    return said


def _is_cron(text: str) -> bool:
    # What Airflow reads them with.
    from croniter import croniter

    return len(text.split()) == 5 and croniter.is_valid(text)
