# SPDX-License-Identifier: Apache-2.0
"""The kill switch in Airflow: one variable for all connections, and one for each."""

from __future__ import annotations

import os
from typing import Final

from airflow.sdk import Variable

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.world.kill_switch import reason_of

STOP_VARIABLE: Final = "rlmm_stop"
"""The Airflow variable that stops the runs of every connection."""


def stop_variables(rlmm_conn_id: str) -> tuple[str, str]:
    """Return the variables that stop the runs of a connection."""
    return STOP_VARIABLE, f"{STOP_VARIABLE}__{rlmm_conn_id}"


def read_stop(rlmm_conn_id: str) -> str | None:
    """
    Return why the runs of a connection are stopped, ``None`` where they may go on.

    :raises ConfigurationError: if an environment variable of this worker freezes the switch.
    :raises Exception: if a variable cannot be read, or it cannot be told whether there is one.
    """
    for name in stop_variables(rlmm_conn_id):
        _refuse_frozen(name)
        if (why := reason_of(f"the Airflow variable {name}", _value_of(name))) is not None:
            return why
    return None


def _refuse_frozen(name: str) -> None:
    """Refuse a switch that no user could set while a run is under way, on or off."""
    variable = f"AIRFLOW_VAR_{name.upper()}"
    if variable in os.environ:
        raise ConfigurationError(
            f"the environment variable {variable} is set on this worker and wins over Airflow's database, so that no user "
            f"could stop a run in the UI: unset it, and set the Airflow variable {name} there instead"
        )


def _value_of(name: str) -> str | None:
    value: str | None = Variable.get(name, default=None)
    if value is None:
        _require_unset(name)
    return value


def _require_unset(name: str) -> None:
    """
    Have Airflow's API say that there is no such variable.

    :meth:`Variable.get` takes an API server that does not answer, or refuses to, for one without the variable.
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable

    answer = task_runner.SUPERVISOR_COMMS.send(GetVariable(key=name))
    if not isinstance(answer, ErrorResponse) or answer.error.name != "VARIABLE_NOT_FOUND":
        raise OSError(f"Airflow's API server does not say that there is no variable {name}")
