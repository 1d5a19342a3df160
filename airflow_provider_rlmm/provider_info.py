# SPDX-License-Identifier: Apache-2.0
"""What Airflow's providers manager learns about this package, without importing what it describes."""

from __future__ import annotations

from typing import Any

from airflow_provider_rlmm.core.base.declarations import Declared, Flag, Text, Whole, Written
from airflow_provider_rlmm.core.base.extras import require_airflow
from airflow_provider_rlmm.core.runs import connection_fields

_INTEGRATION = "Kafka remote log (KIP-405)"
_PACKAGE = "airflow_provider_rlmm"


def get_provider_info() -> dict[str, Any]:
    """
    Return the provider's description in the form of Airflow's ``provider_info.schema.json``.

    :raises RuntimeError: if this Airflow is none that the tests have seen.
    """
    require_airflow()
    return {
        "package-name": "airflow-provider-rlmm",
        "name": "Kafka Remote Log Metadata",
        "description": "Lifecycle of Apache Kafka's remote (tiered, KIP-405) log segments: finds what deleted topics "
        "left behind in remote storage and removes it, auditable and restartable.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://cwiki.apache.org/confluence/display/KAFKA/KIP-405%3A+Kafka+Tiered+Storage",
                "tags": ["apache"],
            }
        ],
        "hooks": [_modules("hooks", "metadata", "storage")],
        "operators": [
            _modules(
                "operators",
                "metadata",
                "connection_check",
                "check",
                "approval",
                "archive",
                "cleaner",
                "retention",
                "doctor",
                "dead_man",
                "scrub",
                "remote_log",
                "copying",
            )
        ],
        "sensors": [_modules("sensors", "remote_log_gone", "remote_log_copied")],
        "triggers": [_modules("triggers", "markers", "topic_gone", "spark_driver")],
        "connection-types": [_connection_type()],
        "extra-links": [
            f"{_PACKAGE}.links.artifacts.{name}Link" for name in ("Plan", "Report", "Doctor", "Scrub", "ScrubPlan")
        ],
        "notifications": [f"{_PACKAGE}.notifications.remote_log.RemoteLogNotifier"],
        "plugins": [{"name": "rlmm", "plugin-class": f"{_PACKAGE}.plugins.rlmm_plugin.RlmmPlugin"}],
        "config": {
            "rlmm": {
                "description": "Remote log metadata provider.",
                "options": {
                    "work_uri": _option(
                        "Where plans and reports are written and where the UI reads them: an absolute\n"
                        "path, or the URI of an object store such as ``s3://``. All components must reach it.\n"
                        "It holds neither credentials nor a query: stores take these from ``work_conn_id``, the\n"
                        "environment or the machine's role. Empty means the folder ``rlmm`` in AIRFLOW_HOME.\n",
                        "s3://my-bucket/rlmm",
                    ),
                    "work_conn_id": _option(
                        "Connection that opens the store of ``work_uri``, of type ``aws``,\n"
                        "``google_cloud_platform`` or ``wasb``, or of any other with options of obstore; roots in\n"
                        "``allowed_plan_roots`` in a store of the same kind are opened by it, too. Spark\n"
                        "does not know it: its jobs take credentials from their own configuration. Empty means the\n"
                        "environment or the machine's role.\n",
                        "aws_default",
                    ),
                    "keep_runs_days": _option(
                        "For how many days the folders and summaries of runs stay below ``work_uri``; the last task of a\n"
                        "run removes older ones. The newest run of each DAG, plans that have not expired, and what is not\n"
                        "recognised stay in any case. 0 keeps all.\n",
                        "30",
                        default="90",
                    ),
                    "keep_audit_days": _option(
                        "For how many days the audit log of what was deleted stays. 0 keeps all of it.\n",
                        "3650",
                        default="0",
                    ),
                    "price_per_gb_month": _option(
                        "What storing 2^30 bytes costs in a month, in a currency of your own: the page *Remote log*\n"
                        "says then what the segments cost. Empty means that no page speaks of cost.\n",
                        "0.023",
                    ),
                    "allowed_plan_roots": _option(
                        "Where a plan may lie that a run of ``remote_log_cleaner`` takes work from\n"
                        "(``source_plan``), besides ``work_uri``: paths and URIs, comma-separated. Whoever can write\n"
                        "there decides what is marked and planned for deletion.\n",
                        "s3://my-bucket/plans,/mnt/plans",
                    ),
                    "connections": _option(
                        "Connections of type ``rlmm`` that have DAGs of their own, comma-separated. The DAGs of\n"
                        "``rlmm_default`` have the plain ids, those of another connection ``x`` end in ``__x``, and so\n"
                        "do their assets. Empty means ``rlmm_default`` alone.\n",
                        "rlmm_default,staging",
                    ),
                    "cleaner_schedule": _option(
                        "When ``remote_log_cleaner`` runs by itself: a cron expression, a preset such as\n"
                        "``@daily``, ``none`` for never, ``plan``: after each plan of ``remote_log_retention``, or\n"
                        "``markers``: daily, and when somebody else has marked partitions as deleted.\n",
                        "0 22 * * *",
                        default="@daily",
                    ),
                    "retention_schedule": _option(
                        "When ``remote_log_retention`` runs by itself: a cron expression, a preset or ``none``.\n"
                        "It needs Spark, so it does not unless this is set.\n",
                        "0 20 * * 6",
                        default="none",
                    ),
                    "scrub_schedule": _option(
                        "When ``remote_storage_scrub`` runs by itself, always as a dry run: a cron expression, a\n"
                        "preset or ``none``.\n",
                        "0 4 * * 0",
                        default="@weekly",
                    ),
                    "doctor_schedule": _option(
                        "When ``remote_log_doctor`` runs by itself: a cron expression, a preset or ``none``.\n",
                        "0 6 * * *",
                        default="@daily",
                    ),
                    "alarm_after_days": _option(
                        "After how many days without a green run of the cleaner ``remote_log_doctor`` ends red; dry runs do\n"
                        "not count where the connection's ``scheduled_runs`` is ``real``. 0 switches the alarm off.\n",
                        "8",
                        default="2",
                    ),
                    "notifier": _option(
                        "Import path of what is called when a run of one of this package's DAGs ends red: a notifier of\n"
                        "any provider, a function that takes the context of a callback, or a list of these. In the\n"
                        "context ``rlmm`` is the message, so templates may say ``{{ rlmm.subject }}``. The DAG processor\n"
                        "must be able to import it. Empty means that nobody is told.\n",
                        "my_alarms.on_red",
                    ),
                },
            }
        },
    }


def _modules(kind: str, *names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{kind}.{name}" for name in names]}


def _option(description: str, example: str, default: str = "") -> dict[str, Any]:
    return {
        "description": description, "version_added": "0.1.0", "type": "string", "example": example, "default": default,
    }  # fmt: skip


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "rlmm",
        "hook-name": "Kafka Remote Log Metadata",
        "hook-class-name": f"{_PACKAGE}.hooks.metadata.RemoteLogMetadataHook",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "port", "schema", "login", "password"],
            "relabeling": {},
            "placeholders": {},
        },
        "conn-fields": {field.name: _field(field) for field in connection_fields.FIELDS},
    }


def _field(declared: Declared[Any]) -> dict[str, Any]:
    """Return a field of the connection's form."""
    sentence, kind, default = declared.sentence, "string", declared.default
    allowed: dict[str, Any] = {}
    match declared.kind:
        case Whole():
            kind = "integer"
        case Flag():
            kind = "boolean"
        case Text(words):
            allowed = {"enum": list(words)} if words else {}
        case Written(example=example):
            sentence = f"{sentence}, such as {example}"
    schema = {"type": [kind, "null"], **({} if default is None else {"default": default}), **allowed}
    return {"label": declared.title, "description": sentence, "schema": schema}
