# SPDX-License-Identifier: Apache-2.0
"""What Airflow's providers manager learns about this package, without importing what it describes."""

from __future__ import annotations

from typing import Any

from airflow_provider_rlmm.core.base.declarations import Declared, Flag, Text, Whole, Written
from airflow_provider_rlmm.core.base.extras import require_airflow
from airflow_provider_rlmm.core.runs import connection_fields, installation_options

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
                "survey",
                "retention",
                "recovery",
                "doctor",
                "leader_retention",
                "dead_man",
                "scrub",
                "contents",
                "remote_log",
                "copying",
            )
        ],
        "sensors": [_modules("sensors", "remote_log_gone", "remote_log_copied")],
        "triggers": [_modules("triggers", "markers", "topic_gone", "spark_driver")],
        "connection-types": [_connection_type()],
        "extra-links": [
            f"{_PACKAGE}.links.artifacts.{name}Link"
            for name in ("Plan", "Report", "Doctor", "Leaders", "Scrub", "ScrubPlan")
        ],
        "notifications": [f"{_PACKAGE}.notifications.remote_log.RemoteLogNotifier"],
        "plugins": [{"name": "rlmm", "plugin-class": f"{_PACKAGE}.plugins.rlmm_plugin.RlmmPlugin"}],
        "config": {
            "rlmm": {
                "description": "Remote log metadata provider.",
                "options": {option.name: _option(option) for option in installation_options.OPTIONS},
            }
        },
    }


def _modules(kind: str, *names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{kind}.{name}" for name in names]}


def _option(declared: Declared[Any]) -> dict[str, Any]:
    """Return an option of Airflow's configuration, in which every value is a text."""
    return {
        "description": f"{declared.sentence}.\n",
        "version_added": "0.1.0",
        "type": "string",
        "example": declared.example,
        "default": str(declared.default),
    }


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
        case Written():
            sentence = f"{sentence}, such as {declared.example}"
    schema = {"type": [kind, "null"], **({} if default is None else {"default": default}), **allowed}
    return {"label": declared.title, "description": sentence, "schema": schema}
