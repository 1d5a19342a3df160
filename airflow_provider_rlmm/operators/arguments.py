# SPDX-License-Identifier: Apache-2.0
"""Operator arguments, which reach us as templates, turned into value objects with clear errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.policy.guards import BlastRadius, CleanerLimits

if TYPE_CHECKING:
    from airflow.sdk import Context

MAX_NAME = 128
_INTEGERS = ("min_absence_ms", "batch_segments", "max_missing_segments")
_NAMES = ("allowed_quarantine", "overrides")


def cleaner_limits(given: Mapping[str, Any] | None) -> CleanerLimits:
    """
    Return the cleaner's limits.

    :param given: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`; ``None`` and absent ones take
        their defaults.
    :raises ConfigurationError: on an unknown field or a value of the wrong kind.
    """
    values = {k: v for k, v in (given or {}).items() if v is not None}
    if unknown := sorted(values.keys() - {*_INTEGERS, *_NAMES}):
        raise ConfigurationError(f"unknown limits {unknown}; known are {sorted((*_INTEGERS, *_NAMES))}")
    try:
        known: dict[str, Any] = {k: int(values[k]) for k in _INTEGERS if k in values}
    except (TypeError, ValueError) as e:
        raise ConfigurationError(f"limits {_INTEGERS} must be integers: {e}") from e
    for name in values.keys() & set(_NAMES):
        if isinstance(values[name], str) or not all(isinstance(v, str) for v in values[name]):
            raise ConfigurationError(f"limit {name} must be a list of names, got {values[name]!r}")
        known[name] = frozenset(values[name])
    return CleanerLimits(**known)


def blast_radius(given: Mapping[str, Any] | None) -> BlastRadius:
    """
    Return the blast-radius limit.

    :param given: fields of :class:`~airflow_provider_rlmm.policy.guards.BlastRadius`; absent ones take their defaults.
    :raises ConfigurationError: on an unknown field or a value of the wrong kind.
    """
    try:
        kinds = {"max_segments": int, "max_bytes": int, "max_share": float}
        return BlastRadius(**{k: kinds[k](v) for k, v in (given or {}).items() if v is not None})
    except (KeyError, TypeError, ValueError) as e:
        raise ConfigurationError(f"blast radius takes max_segments, max_bytes and max_share: {e!r}") from e


def flag(name: str, value: object) -> bool:
    """
    Return a boolean argument; a template renders one as text.

    :param name: of the argument, for the error.
    :param value: a boolean, or the text of one.
    :raises ConfigurationError: for anything else: a misspelt dry run must not delete.
    """
    spelled = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(spelled, bool):
        raise ConfigurationError(f"{name} must be true or false, got {value!r}")
    return spelled


def artifact_name(context: Context) -> str:
    """
    Return the name under which a run keeps its plan and its report.

    :param context: of the running task.
    """
    run = context["dag_run"]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{run.dag_id}.{run.run_id}").lstrip("._-")
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: MAX_NAME - 17]}-{digest}"
