# SPDX-License-Identifier: Apache-2.0
"""
Options of the section ``[rlmm]`` in Airflow's configuration, declared: what holds for the whole installation.

:mod:`airflow_provider_rlmm.settings` reads them.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from airflow_provider_rlmm.core.base.declarations import Declared, Kind, Text, Whole

Value = TypeVar("Value")

_DAYS: Final = Whole(maximum=36_500)


def _option(name: str, kind: Kind, default: Value, example: str, sentence: str) -> Declared[Value]:
    return Declared(name=name, kind=kind, default=default, example=example, sentence=sentence)


def _text(name: str, example: str, sentence: str, default: str = "") -> Declared[str]:
    return _option(name, Text(), default, example, sentence)


# Airflow prints the sentences as comments of airflow.cfg, in these lines.
WORK_URI: Final = _text(
    "work_uri",
    "s3://my-bucket/rlmm",
    "Where plans and reports are written and where the UI reads them: an absolute\n"
    "path, or the URI of an object store such as ``s3://``. All components must reach it.\n"
    "It holds neither credentials nor a query: stores take these from ``work_conn_id``, the\n"
    "environment or the machine's role. Empty means the folder ``rlmm`` in AIRFLOW_HOME",
)
WORK_CONN_ID: Final = _text(
    "work_conn_id",
    "aws_default",
    "Connection that opens the store of ``work_uri``, of type ``aws``,\n"
    "``google_cloud_platform`` or ``wasb``, or of any other with options of obstore. It also opens\n"
    "roots in ``allowed_plan_roots`` in a store of the same kind. The Spark job gets its credentials\n"
    "when it starts, if the driver runs in the task, and not in cluster mode.\n"
    "Empty means the environment or the machine's role",
)
KEEP_RUNS_DAYS: Final = _option(
    "keep_runs_days",
    _DAYS,
    90,
    "30",
    "For how many days the folders and summaries of runs stay below ``work_uri``; the last task of a\n"
    "run removes older ones. The newest run of each DAG, plans that have not expired, and unknown\n"
    "files stay in any case. 0 keeps all",
)
KEEP_AUDIT_DAYS: Final = _option(
    "keep_audit_days",
    _DAYS,
    0,
    "3650",
    "For how many days the audit log of what was deleted stays. 0 keeps all of it",
)
PRICE_PER_GB_MONTH: Final = _text(
    "price_per_gb_month",
    "0.023",
    "What storing 2^30 bytes costs in a month, in your currency. It holds for every storage\n"
    "class that has no price in the field ``prices`` of its connection. Without either, no cost\n"
    "is shown",
)
ALLOWED_PLAN_ROOTS: Final = _text(
    "allowed_plan_roots",
    "s3://my-bucket/plans,/mnt/plans",
    "Folders, besides ``work_uri``, from which a run of ``remote_log_cleaner`` may take a plan\n"
    "(``source_plan``): paths and URIs, comma-separated. A user who can write there decides what\n"
    "is marked and planned for deletion",
)
CONNECTIONS: Final = _text(
    "connections",
    "rlmm_default,staging",
    "Connections of type ``rlmm`` that have DAGs of their own, comma-separated. The DAGs of\n"
    "``rlmm_default`` have the plain ids, those of another connection ``x`` end in ``__x``, and so\n"
    "do their assets. Empty means ``rlmm_default`` alone",
)
CLEANER_SCHEDULE: Final = _text(
    "cleaner_schedule",
    "0 22 * * *",
    "When ``remote_log_cleaner`` runs by itself: a cron expression, a preset such as\n"
    "``@daily``, ``none`` for never, ``plan``: after each plan of ``remote_log_retention``, or\n"
    "``markers``: daily, and when another program has marked partitions as deleted",
    default="@daily",
)
RETENTION_SCHEDULE: Final = _text(
    "retention_schedule",
    "0 20 * * 6",
    "When ``remote_log_retention`` runs by itself: a cron expression, a preset or ``none``.\n"
    "It needs Spark, so by default it does not",
    default="none",
)
SCRUB_SCHEDULE: Final = _text(
    "scrub_schedule",
    "0 4 * * 0",
    "When ``remote_storage_scrub`` runs by itself, always as a dry run: a cron expression, a\npreset or ``none``",
    default="@weekly",
)
DOCTOR_SCHEDULE: Final = _text(
    "doctor_schedule",
    "0 6 * * *",
    "When ``remote_log_doctor`` runs by itself: a cron expression, a preset or ``none``",
    default="@daily",
)
CONTENTS_SCHEDULE: Final = _text(
    "contents_schedule",
    "0 2 * * *",
    "When ``remote_log_contents`` runs by itself: a cron expression, a preset or ``none``.\n"
    "It reads segments, for which most stores charge, so by default it does not",
    default="none",
)
ALARM_AFTER_DAYS: Final = _option(
    "alarm_after_days",
    Whole(maximum=366),
    2,
    "8",
    "After how many days without a green run of the cleaner ``remote_log_doctor`` ends red; dry runs do\n"
    "not count if the connection's ``scheduled_runs`` is ``real``. 0 switches the alarm off",
)
NOTIFIER: Final = _text(
    "notifier",
    "my_alarms.on_red",
    "Import path of what to call when a run of one of this package's DAGs ends red: a notifier of\n"
    "any provider, a function that takes the context of a callback, or a list of these. In the\n"
    "context ``rlmm`` is the message, so templates may say ``{{ rlmm.subject }}``. The DAG processor\n"
    "must be able to import it. Empty means that no message is sent",
)

OPTIONS: Final[tuple[Declared[Any], ...]] = (
    WORK_URI,
    WORK_CONN_ID,
    KEEP_RUNS_DAYS,
    KEEP_AUDIT_DAYS,
    PRICE_PER_GB_MONTH,
    ALLOWED_PLAN_ROOTS,
    CONNECTIONS,
    CLEANER_SCHEDULE,
    RETENTION_SCHEDULE,
    SCRUB_SCHEDULE,
    DOCTOR_SCHEDULE,
    CONTENTS_SCHEDULE,
    ALARM_AFTER_DAYS,
    NOTIFIER,
)
