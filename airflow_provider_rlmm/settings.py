# SPDX-License-Identifier: Apache-2.0
"""
Settings of this package in Airflow's configuration, section ``[rlmm]`` (environment: ``AIRFLOW__RLMM__…``).

Settings are read when asked for and not at import, so that importing this package never starts Airflow's configuration.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.base.declarations import Declared, read_spelled
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import local_path
from airflow_provider_rlmm.core.base.object_stores import OpenedStore, open_stores_by
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.store_uris import is_below, refuse_secrets_in_uri
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.plans.prices import no_price, price_micros
from airflow_provider_rlmm.core.runs import installation_options as declared

__all__ = ["connections"]

NO_PRICE = no_price("set prices of the rlmm connection to {prices}, or [rlmm] price_per_gb_month to 0.023")
"""Why runs and pages tell no cost, and how to have one."""

_ELSEWHERE = (
    "object stores find them elsewhere: in the connection that [rlmm] work_conn_id names, in the environment (such as "
    "AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL), in the role of the machine"
)

_CONN_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MAX_ARTIFACT_NAME = 128
_KEPT_OF_LONG_NAME = _MAX_ARTIFACT_NAME - 17  # a dash and the beginning of a digest follow
_ARTIFACT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def work_uri() -> str:
    """
    Return where plans and reports are written: ``[rlmm] work_uri``, by default the folder ``rlmm`` in AIRFLOW_HOME.

    :return: an absolute path or a URI of :mod:`~airflow_provider_rlmm.core.base.file_systems`, without a slash at the end.
    :raises ConfigurationError: if it is neither, or holds credentials, a query or a fragment.
    """
    if configured := _configured(declared.WORK_URI):
        check_location("[rlmm] work_uri", configured)
        return configured.rstrip("/")
    home = Path(os.path.expandvars(os.environ.get("AIRFLOW_HOME", "~/airflow"))).expanduser()
    return str(home / "rlmm")


def keep_runs_days() -> int:
    """
    Return for how long folders and summaries of runs stay: ``[rlmm] keep_runs_days``, by default 90 days, 0 for ever.

    :raises ConfigurationError: if it is no number of days.
    """
    return _integer(declared.KEEP_RUNS_DAYS)


def keep_audit_days() -> int:
    """
    Return for how long the audit log stays: ``[rlmm] keep_audit_days``, by default 0, for ever.

    :raises ConfigurationError: if it is no number of days.
    """
    return _integer(declared.KEEP_AUDIT_DAYS)


def _configured(option: Declared[Any]) -> str:
    """Return what Airflow's configuration says, as it is written there, or the default."""
    from airflow.providers.common.compat.sdk import conf

    return conf.get("rlmm", option.name, fallback="") or str(option.default)


def _integer(option: Declared[int]) -> int:
    name, found = f"[rlmm] {option.name}", _configured(option)
    return read_spelled(replace(option, name=name), found)


def work_conn_id() -> str | None:
    """Return which connection opens the store of :func:`work_uri`: ``[rlmm] work_conn_id``, by default none."""
    return _configured(declared.WORK_CONN_ID).strip() or None


def connections() -> tuple[str, ...]:
    """
    Return which connections have DAGs of their own: ``[rlmm] connections``, by default ``rlmm_default`` alone.

    :return: ids, each once, in the order in which they are named.
    :raises ConfigurationError: if one cannot be part of a DAG's id, or is named twice.
    """
    configured = _configured(declared.CONNECTIONS) or DEFAULT_CONN_ID
    named = tuple(conn_id.strip() for conn_id in configured.split(",") if conn_id.strip())
    for conn_id in named:
        # A dot ends the DAG's id in the name of a run's folder.
        if not _CONN_ID.fullmatch(conn_id):
            allowed = "ids of connections separated by commas, each of 1 to 100 letters, digits, dashes and underscores"
            raise refused("[rlmm] connections", conn_id, allowed)
    if len(set(named)) != len(named) or not named:
        raise refused("[rlmm] connections", configured, "at least one id, and each id once")
    return named


def schedule_of(option: Declared[str]) -> str | None:
    """
    Return when the DAGs of one kind run.

    :return: a cron expression, a preset or another word, as it was written; ``None`` for ``none``: only by hand.
    """
    configured = _configured(option).strip()
    return None if configured.lower() == "none" else configured


def notifier() -> str | None:
    """Return what is called when a run of a shipped DAG ends red: ``[rlmm] notifier``, an import path, by default nothing."""
    return _configured(declared.NOTIFIER).strip() or None


def price_per_gb_month() -> int | None:
    """
    Return what storing 2^30 bytes costs in a month where the connection has no price of the storage class:
    ``[rlmm] price_per_gb_month``.

    :return: millionths of a unit of money, ``None`` where nothing is set.
    :raises ConfigurationError: if it is no number from 0 on with at most six decimals.
    """
    configured = _configured(declared.PRICE_PER_GB_MONTH).strip()
    return price_micros("[rlmm] price_per_gb_month", configured) if configured else None


def alarm_after_days() -> int:
    """
    Return after how many days without a green run of the cleaner the alarm rings: ``[rlmm] alarm_after_days``, by default 2.

    :return: days; 0 switches the alarm off.
    :raises ConfigurationError: if it is no integer from 0 to 366.
    """
    return _integer(declared.ALARM_AFTER_DAYS)


def _open_by_connection(uri: str) -> OpenedStore | None:
    if (conn_id := work_conn_id()) is None:
        return None
    from airflow_provider_rlmm.hooks.work_store import open_work_store

    return open_work_store(uri, conn_id, work_uri())


# Code that opens a file in an object store has its URI from here.
open_stores_by(_open_by_connection)


def check_location(what: str, uri: str) -> None:
    """
    Refuse a folder that not every component finds at the same place, or that cannot be opened by what its URI says.

    :param what: the setting or argument, for the message.
    :param uri: an absolute path or a URI of :mod:`~airflow_provider_rlmm.core.base.file_systems`.
    :raises ConfigurationError: naming the setting; also if it holds credentials, a query or a fragment.
    """
    refuse_secrets_in_uri(what, uri, _ELSEWHERE)
    try:
        path = local_path(uri)
    except ConfigurationError as e:
        raise ConfigurationError(f"{what}: {e}") from None
    if path is not None and not path.is_absolute():
        raise ConfigurationError(
            f"{what} must be an absolute path or a URI, not {in_quotes(uri)}: every component would look for it in "
            "another folder"
        )


def allowed_plan_roots() -> tuple[str, ...]:
    """
    Return where plans may lie besides the work folder: ``[rlmm] allowed_plan_roots``, by default nowhere.

    :return: absolute paths and URIs.
    :raises ConfigurationError: if one is neither, or holds credentials, a query or a fragment.
    """
    configured = _configured(declared.ALLOWED_PLAN_ROOTS)
    roots = tuple(root.strip() for root in configured.split(",") if root.strip())
    for root in roots:
        check_location("[rlmm] allowed_plan_roots", root)
    return roots


def plan_uri(source_plan: str) -> str:
    """
    Return where a plan lies that a user names in a run.

    :param source_plan: name of a plan below the work folder, or the path or URI of one below the work folder or below a root
        that ``[rlmm] allowed_plan_roots`` names. Local links are followed before that is judged.
    :raises ConfigurationError: for anything else.
    """
    if not isinstance(source_plan, str):
        raise ConfigurationError(f"source_plan must be the name or the URI of a plan, not {type(source_plan).__name__}")
    if is_artifact_name(source_plan):
        return artifact_uri(source_plan)
    refuse_secrets_in_uri("source_plan", source_plan, _ELSEWHERE)
    # The file that is opened is the one that was judged, not what a link leads to by then.
    uri = _without_links(source_plan) if _is_local(source_plan) else source_plan
    if not any(_lies_below(uri, root) for root in (work_uri(), *allowed_plan_roots())):
        raise ConfigurationError(
            f"source_plan {in_quotes(source_plan)} is neither the name of a plan below [rlmm] work_uri nor below a root that "
            "[rlmm] allowed_plan_roots names; give the plan's name, or have an administrator allow its root"
        )
    return uri


def _lies_below(uri: str, root: str) -> bool:
    if _is_local(uri) and _is_local(root):
        return Path(uri).is_relative_to(_without_links(root))
    return not _is_local(uri) and not _is_local(root) and is_below(uri, root)


def _is_local(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def _without_links(uri: str) -> str:
    path = local_path(uri)
    if path is None or not path.is_absolute():
        raise ConfigurationError(f"{in_quotes(uri)} is neither an absolute path nor a URI")
    return os.path.realpath(path)


def is_artifact_name(name: str) -> bool:
    """
    Tell whether :func:`artifact_uri` takes a name.

    :param name: any text.
    """
    return _ARTIFACT_NAME.fullmatch(name) is not None


def artifact_name_of(dag_id: str, run_id: str, group_id: str | None = None) -> str:
    """
    Return the name under which a run keeps its plan and its report.

    :param dag_id: of its DAG.
    :param run_id: of the run.
    :param group_id: of the group of tasks whose documents these are, ``None`` for those in none.
    """
    whose = (dag_id, run_id) if group_id is None else (dag_id, run_id, group_id)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", ".".join(whose)).lstrip("._-")
    if len(name) <= _MAX_ARTIFACT_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[:_KEPT_OF_LONG_NAME]}-{digest}"


def may_be_of_run(name: str, dag_id: str, run_id: str) -> bool:
    """
    Tell whether a folder may be that of a run, or of a group of its tasks, by how its name begins.

    :param name: of the folder.
    :param dag_id: of the run's DAG.
    :param run_id: of the run.
    """
    return name.startswith(artifact_name_of(dag_id, run_id)[:_KEPT_OF_LONG_NAME])


def groups_around(task_id: str) -> list[str]:
    """
    Return the ids that a group around a task may have, by the task's id, the outermost first.

    :param task_id: of the task: Airflow puts the id of its group and a dot before it.
    """
    pieces = task_id.split(".")
    return [".".join(pieces[:n]) for n in range(1, len(pieces))]


def artifact_uri(name: str) -> str:
    """
    Return where the documents of one plan or one report lie.

    :param name: letters, digits, dots, dashes and underscores, starting with a letter or a digit, at most 128: it is
        one path segment and can never walk.
    :raises ConfigurationError: for any other name.
    """
    if not is_artifact_name(name):
        raise ConfigurationError(
            f"{in_quotes(name)} cannot name a plan or a report: it must match {_ARTIFACT_NAME.pattern}"
        )
    return f"{work_uri()}/{name}"
