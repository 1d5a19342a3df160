# SPDX-License-Identifier: Apache-2.0
"""
Operator arguments, which reach us as templates, turned into values of exactly one kind with errors that say what is allowed.

A template renders numbers and booleans as text, or as themselves where the DAG asks for native objects: both are taken, and
nothing that only resembles them: no ``1.5`` or ``1e3`` for a count, no ``yes`` for a flag, no ``True`` for a number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from airflow.sdk import Context

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.policy import values
from airflow_provider_rlmm.policy.guards import MAX_BATCH_SEGMENTS, BlastRadius, CleanerLimits
from airflow_provider_rlmm.policy.hold import Hold
from airflow_provider_rlmm.policy.scrub_plan import ScrubLimits
from airflow_provider_rlmm.policy.values import refused
from airflow_provider_rlmm.quoting import list_in_quotes
from airflow_provider_rlmm.settings import plan_uri

MAX_NAME = 128
MAX_TEXT = 4_096
MAX_EVENTS = 10_000
MAX_PARTITION = 2**31 - 1
MAX_PRICE = 1_000_000

Reader = Callable[[str, object], Any]
"""
Takes the name of an argument, for the error, and what was given; returns the value that it means.

Raises :class:`~airflow_provider_rlmm.errors.ConfigurationError` for anything else than the reader's kind.
"""

_NUMBER = re.compile(r"[0-9]{0,19}\.?[0-9]{1,19}(e-?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)

integer = values.spelled_integer
"""Returns an integer within bounds, or the one that a text spells: a :data:`Reader`."""


def share(name: str, value: object) -> float:
    """Return a share: a number from 0 to 1, or the text of one; see :data:`Reader`."""
    spelled = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return values.share(name, float(spelled[0]) if spelled else value)


def flag(name: str, value: object) -> bool:
    """Return a boolean, or the text of one, as a boolean; see :data:`Reader`: a misspelt dry run must not delete."""
    spelled = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(spelled, bool):
        raise refused(name, value, "true or false")
    return spelled


def text(name: str, value: object) -> str:
    """Return a text that is not empty, such as the name of a connection or a URI; see :data:`Reader`."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise refused(name, value, f"a text of 1 to {MAX_TEXT} characters without line breaks or control characters")
    return value


def text_or_none(name: str, value: object) -> str | None:
    """Return a text argument, ``None`` where it is ``None`` or empty; see :data:`Reader`."""
    return None if value is None or value == "" else text(name, value)


def plan_or_none(name: str, value: object) -> str | None:
    """Return the folder of a plan of which the name or the URI is given, ``None`` where none is; see :data:`Reader`."""
    source_plan = text_or_none(name, value)
    return None if source_plan is None else plan_uri(source_plan)


def metadata_partition(name: str, value: object) -> int:
    """Return the number of a metadata partition, an integer or the text of one; see :data:`Reader`."""
    return integer(name, value, 0, MAX_PARTITION)


def offsets(name: str, value: object) -> dict[int, int]:
    """Return metadata partition → offset, both integers or the text of one, ``None`` for none; see :data:`Reader`."""
    given = {} if value is None else value
    if not isinstance(given, Mapping):
        raise refused(name, value, "a mapping of metadata partitions to offsets")
    found = {metadata_partition(f"{name}: a metadata partition", p): o for p, o in given.items()}
    if len(found) != len(given):
        raise ConfigurationError(f"{name} names a metadata partition twice")
    return {p: integer(f"{name}: the offset of metadata partition {p}", o) for p, o in found.items()}


def mappings(name: str, value: object) -> list[Mapping[str, Any]]:
    """Return a sequence of mappings whose keys are texts as a list; see :data:`Reader`."""
    allowed = f"a list of at most {MAX_EVENTS} mappings with texts for keys"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or len(value) > MAX_EVENTS:
        raise refused(name, value, allowed)
    for element in value:
        if not isinstance(element, Mapping) or not all(isinstance(key, str) for key in element):
            raise refused(name, element, allowed)
    return list(value)


def fields(name: str, given: object, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """
    Return what a mapping holds, each field read by its reader; those that are ``None`` are left out.

    :param name: of the argument, for the error.
    :param given: the mapping; ``None`` for an empty one.
    :param readers: field → what reads it.
    :raises ConfigurationError: on an unknown field, or a value that its reader refuses.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise refused(name, given, f"a mapping with fields out of {sorted(readers)}")
    if unknown := [str(key) for key in given if key not in readers]:
        raise ConfigurationError(f"unknown {name} {list_in_quotes(unknown)}; known are {sorted(readers)}")
    return {field: readers[field](field, value) for field, value in given.items() if value is not None}


def optional_integer(name: str, value: object, minimum: int = 0) -> int | None:
    """Return an integer, ``None`` where it is absent or a template that rendered as nothing; see :data:`Reader`."""
    return None if value is None or value in ("", "None") else integer(name, value, minimum=minimum)


def _optional_text(name: str, value: object) -> str | None:
    return None if value in ("", "None") else text(name, value)


_LIMITS: Mapping[str, Reader] = {
    "min_absence_ms": integer,
    "batch_segments": partial(integer, minimum=1, maximum=MAX_BATCH_SEGMENTS),
    "max_missing_segments": integer,
    "allowed_quarantine": values.strings,
    "overrides": values.strings,
    "objects_per_second": partial(optional_integer, minimum=1),
    "deletion_window": _optional_text,
}
_BLAST_RADIUS: Mapping[str, Reader] = {"max_segments": integer, "max_bytes": integer, "max_share": share}


def cleaner_limits(given: Mapping[str, Any] | None) -> CleanerLimits:
    """
    Return the cleaner's limits.

    :param given: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`; ``None`` and absent ones take
        their defaults.
    :raises ConfigurationError: on an unknown field, or a value of the wrong kind or out of its bounds.
    """
    return CleanerLimits(**fields("limits", given, _LIMITS))


_SCRUB_LIMITS: Mapping[str, Reader] = {
    "min_unreferenced_ms": integer,
    "batch_segments": partial(integer, minimum=1, maximum=MAX_BATCH_SEGMENTS),
    "overrides": values.strings,
    "objects_per_second": partial(optional_integer, minimum=1),
    "deletion_window": _optional_text,
}


def scrub_limits(given: Mapping[str, Any] | None) -> ScrubLimits:
    """
    Return the limits of what a scrub may delete.

    :param given: fields of :class:`~airflow_provider_rlmm.policy.scrub_plan.ScrubLimits`; ``None`` and absent ones take
        their defaults.
    :raises ConfigurationError: on an unknown field, or a value of the wrong kind or out of its bounds.
    """
    return ScrubLimits(**fields("limits", given, _SCRUB_LIMITS))


def price_micros(name: str, value: object) -> int | None:
    """
    Return a price in millionths, ``None`` where it is absent or a template that rendered as nothing; see :data:`Reader`.

    :raises ConfigurationError: for what is no number from 0 to :data:`MAX_PRICE`.
    """
    if value is None or value in ("", "None"):
        return None
    spelled = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(spelled[0]) if spelled else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= MAX_PRICE:
        raise refused(name, value, f"a number from 0 to {MAX_PRICE}")
    return round(number * 1_000_000)


def hold_entries(value: object) -> tuple[str, ...]:
    """
    Return the topics that a run must not touch.

    :param value: a list of names, patterns and ids; ``None`` or an empty text for none.
    :raises ConfigurationError: for anything else, or if an entry can hold nothing.
    """
    # Nothing else stands for "nothing is held": a slip of the pen must not lift a hold.
    return Hold.of(() if value is None or value == "" else sorted(values.strings("hold", value))).entries


def blast_radius(given: Mapping[str, Any] | None) -> BlastRadius:
    """
    Return the blast-radius limit.

    :param given: fields of :class:`~airflow_provider_rlmm.policy.guards.BlastRadius`; absent ones take their defaults.
    :raises ConfigurationError: on an unknown field, or a value of the wrong kind or out of its bounds.
    """
    return BlastRadius(**fields("blast_radius", given, _BLAST_RADIUS))


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
