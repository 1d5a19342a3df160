# SPDX-License-Identifier: Apache-2.0
"""
Checks of single values that a user set: exactly the kind, within bounds, and a message that says what is allowed.

A boolean is no number, and a number with a point is no count.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes, list_in_quotes

MAX_INTEGER = 2**63 - 1
MAX_SHOWN = 80
MAX_NAMES = 1_000

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DURATION = re.compile(
    r"(?:([0-9]{1,9}) *d)? *(?:([0-9]{1,9}) *h)? *(?:([0-9]{1,9}) *min)? *(?:([0-9]{1,9}) *s)? *(?:([0-9]{1,12}) *ms)?",
    re.ASCII,
)
_UNITS = ("d", "h", "min", "s", "ms")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_DURATION_EXAMPLES = "'24 h', '23 h 47 min' or '3 d'"
_MOMENT = "a time with its zone, such as 2026-03-01T22:30:00Z, or an integer, ms since the epoch"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _shown(value: object) -> str:
    """Return the beginning of a value, as Python writes it, for a message."""
    if isinstance(value, str):
        return in_quotes(value, MAX_SHOWN)
    if isinstance(value, bool | float | None):
        return repr(value)
    if isinstance(value, int):
        # Python refuses to write out a huge one.
        return repr(value) if value.bit_length() <= 128 else "a huge integer"
    return f"a value of type {type(value).__name__}"


def refused(name: str, value: object, allowed: str) -> ConfigurationError:
    """
    Return the error for a value.

    :param name: of the setting or argument.
    :param value: what was given.
    :param allowed: what may be given, in words that fit behind "must be".
    """
    return ConfigurationError(f"{name} must be {allowed}, not {_shown(value)}")


def integer(name: str, value: object, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
    """
    Return an integer within bounds.

    :param name: of the setting, for the error.
    :param value: what was given.
    :param minimum: inclusive.
    :param maximum: inclusive.
    :raises ConfigurationError: for anything else.
    """
    if type(value) is not int or not minimum <= value <= maximum:
        top = "2^63 - 1" if maximum == MAX_INTEGER else str(maximum)
        raise refused(name, value, f"an integer from {minimum} to {top}")
    return value


def spelled_integer(name: str, value: object, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
    """
    Return an integer within bounds that may be written as text, as templates do.

    :param name: of the setting, for the error.
    :param value: an integer, or its decimal digits.
    :param minimum: inclusive.
    :param maximum: inclusive.
    :raises ConfigurationError: for anything else, ``1.5``, ``1e3`` and ``1_000`` among it.
    """
    spelled = _INTEGER.fullmatch(value.strip()) if isinstance(value, str) else None
    return integer(name, int(spelled[0]) if spelled else value, minimum, maximum)


def spelled_flag(name: str, value: object) -> bool:
    """
    Return a boolean that may be written as text, as templates and connections given as a URI do.

    :param name: of the setting, for the error.
    :param value: a boolean, or ``true`` or ``false`` in any case.
    :raises ConfigurationError: for anything else: a misspelt dry run must not delete.
    """
    spelled = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(spelled, bool):
        raise refused(name, value, "true or false")
    return spelled


def duration_ms(name: str, value: object, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
    """
    Return a duration, ms, that may be written in words: ``24 h``, ``23 h 47 min``, ``3 d``, ``90 s``, ``500 ms``.

    :param name: of the setting, for the error.
    :param value: an integer or its decimal digits, ms; or whole numbers, each with a unit, the largest unit first.
    :param minimum: inclusive, ms.
    :param maximum: inclusive, ms.
    :raises ConfigurationError: for anything else.
    """
    words = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if words is None or not any(words.groups()):
        if isinstance(value, str) and not _INTEGER.fullmatch(value.strip()):
            raise refused(name, value, f"a duration such as {_DURATION_EXAMPLES}, or an integer, ms")
        total = spelled_integer(name, value, 0, MAX_INTEGER)
    else:
        total = sum(int(amount) * unit for amount, unit in zip(words.groups(), _UNITS_MS, strict=True) if amount)
    if not minimum <= total <= maximum:
        top = "" if maximum == MAX_INTEGER else f" to {duration_text(maximum)}"
        raise refused(name, value, f"a duration from {duration_text(minimum)}{top or ' on'}")
    return total


def duration_text(duration_ms: int) -> str:
    """
    Return a duration as :func:`duration_ms` reads it, in the largest unit up to hours that it is a whole number of.

    :param duration_ms: ms, 0 or more.
    """
    unit, size = next((u, size) for u, size in zip(_UNITS[1:], _UNITS_MS[1:], strict=True) if duration_ms % size == 0)
    return f"{duration_ms // size} {unit}"


def moment_ms(name: str, value: object) -> int:
    """
    Return a point in time, ms since the epoch.

    :param name: of the setting, for the error.
    :param value: an integer or its decimal digits, ms since the epoch; or a time with its zone, as a ``datetime`` or in the
        form of ISO 8601: ``2026-03-01T22:30:00Z``, ``2026-03-01 23:30+01:00``.
    :raises ConfigurationError: for anything else, a time without a zone among it.
    """
    if isinstance(value, str) and not _INTEGER.fullmatch(value.strip()):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise refused(name, value, _MOMENT) from None
    if not isinstance(value, datetime):
        return spelled_integer(name, value)
    if value.tzinfo is None:
        raise refused(name, value.isoformat(), f"{_MOMENT} (and this one has no zone: add Z or +01:00)")
    found = (value - _EPOCH) // timedelta(milliseconds=1)
    if found < 0:
        raise refused(name, value.isoformat(), "a time since 1970")
    return found


def share(name: str, value: object) -> float:
    """
    Return a share: a finite number from 0 to 1.

    :param name: of the setting, for the error.
    :param value: what was given.
    :raises ConfigurationError: for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise refused(name, value, "a number from 0 to 1")
    return float(value)


def strings(name: str, value: object) -> frozenset[str]:
    """
    Return texts as a set.

    :param name: of the setting, for the error.
    :param value: what was given: a list, a tuple or a set.
    :raises ConfigurationError: for anything else.
    """
    allowed = f"a list of at most {MAX_NAMES} names"
    if not isinstance(value, list | tuple | set | frozenset) or len(value) > MAX_NAMES:
        raise refused(name, value, allowed)
    for element in value:
        if not isinstance(element, str):
            raise refused(name, element, allowed)
    return frozenset(value)


def names(name: str, value: object, known: Collection[str]) -> frozenset[str]:
    """
    Return a set of known names.

    :param name: of the setting, for the error.
    :param value: what was given: a list, a tuple or a set.
    :param known: the names that there are.
    :raises ConfigurationError: for anything else, naming what is not known.
    """
    found = strings(name, value)
    if unknown := found - set(known):
        raise ConfigurationError(f"unknown {name} {list_in_quotes(unknown)}; known are {sorted(known)}")
    return found
