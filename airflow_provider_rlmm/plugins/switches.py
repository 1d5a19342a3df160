# SPDX-License-Identifier: Apache-2.0
"""The kill switch as the pages see it: what Airflow's database says now. It is read only."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_rlmm.core.world.kill_switch import reason_of
from airflow_provider_rlmm.hooks.kill_switch import STOP_VARIABLE, stop_variables


def set_switches(connections: Iterable[str]) -> dict[str, str]:
    """
    Return the variables that stop runs now, and why.

    :param connections: ids of the connections whose runs they may stop.
    """
    found = {}
    for name in dict.fromkeys([STOP_VARIABLE, *(name for c in connections for name in stop_variables(c))]):
        if (why := reason_of(f"the Airflow variable {name}", _value_of(name))) is not None:
            found[name] = why
    return found


def _value_of(name: str) -> str | None:
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalar(select(Variable).where(Variable.key == name))
        # What is there and cannot be decrypted stops as well: it was set.
        value: str | None = None if found is None else found.get_val() or ""
    return value
