# SPDX-License-Identifier: Apache-2.0
"""The notifier of the shipped DAGs: what ``[rlmm] notifier`` names, looked up when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from airflow.sdk import Context

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.notifications.failures import note_failure
from airflow_provider_rlmm.notifications.remote_log import RemoteLogNotifier
from airflow_provider_rlmm.settings import notifier

Callback = Callable[[Context], None]


def on_failure() -> Callback | None:
    """Return the callback of a DAG's red runs, ``None`` where no message is wanted."""
    return _notify if notifier() else None


def of_tasks() -> dict[str, Any]:
    """Return what all tasks of a DAG have: where a message is wanted, each notes why it failed."""
    return {"on_failure_callback": note_failure} if notifier() else {}


def configured_notifier() -> RemoteLogNotifier | None:
    """
    Import what ``[rlmm] notifier`` names.

    :return: what takes the context of a callback and hands the message on, ``None`` where nothing is named.
    :raises ConfigurationError: if it cannot be imported or called.
    """
    path = notifier()
    if path is None:
        return None
    module, _, name = path.rpartition(".")
    try:
        found: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as e:
        raise _not_a_notifier(path, f"it cannot be imported: {e}") from e
    except Exception as e:
        # A module runs any code; what it says about that may hold anything.
        raise _not_a_notifier(path, f"its module raised {type(e).__name__}") from e
    if isinstance(found, RemoteLogNotifier):
        return found
    if isinstance(found, type):
        raise _not_a_notifier(path, "it is a class: name an instance of it")
    if not callable(found) and not isinstance(found, list | tuple):
        raise _not_a_notifier(path, f"it is of type {type(found).__name__}, which cannot be called")
    return RemoteLogNotifier(found)


def _not_a_notifier(path: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"[rlmm] notifier {in_quotes(path)} is no notifier, {why}; name a notifier or a function of a module that the DAG "
        "processor and the workers can import, such as my_alarms.on_red"
    )


def _notify(context: Context) -> None:
    call = configured_notifier()
    if call is not None:
        call(context)
