# SPDX-License-Identifier: Apache-2.0
"""Documents that were changed at random: length, sign, kind, paths, repeated names, ``NaN``, ``1e3``, depth and size."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from airflow_provider_rlmm.core.base import strict_json as strict

VERSION: Final = 1
_NAN, _TWICE = "@NaN@", "@twice@"
_LONG = strict.MAX_TEXT


def _nested(depth: int) -> dict[str, Any]:
    inner: Any = 1
    for _ in range(depth):
        inner = {"n": inner}
    return {"n": inner}


_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, -2, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) + 1, -(2**63), 10**400,
    0.0, 1.0, 0.5, -0.5, 1.5, 1000.0, 1e300, _NAN,
    "", "x", "..", ".", "a/b", "a/../b", "a//b", "/a", "%2e%2e", "a\n", "NaN", "1", "\ud800", "x" * _LONG, "x" * (_LONG + 1),
    "Approve", "AAAAAAAAAAAAAAAAAAAABw", "AAAAAAAAAAAAAAAAAAAAB", "ORPHANED", "FINISHED",
    [], [1], [1, 2], [1, 2, 3], [None], {}, {"a": 1}, {"0": 1}, {"0": -1}, {"segments": 1, "bytes": 1},
    {"objects": 1, "bytes": 1},
    _nested(strict.MAX_DEPTH - 1), _nested(strict.MAX_DEPTH), _nested(strict.MAX_DEPTH + 1), _nested(40),
)  # fmt: skip
_NAMES: Final = (
    "0",
    "7",
    "00",
    "-1",
    "1.0",
    " 1",
    "٣",
    "2147483647",
    "2147483648",
    "..",
    "",
    "x" * (_LONG + 1),
    "count",
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each container with the name or number of each element, at every depth."""
    names = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for name in names for place in [(value, name), *_places(value[name])]]


def _replaced(random: Random, old: Any) -> Any:
    return copy.deepcopy(random.choice(_VALUES))


def _nearby(random: Random, old: Any) -> Any:
    """Return a value of nearly the same kind."""
    if isinstance(old, bool):
        return random.choice([not old, int(old), str(old).lower()])
    if isinstance(old, int) and old.bit_length() < 64:
        return random.choice([old + 1, -old, -1, float(old), str(old), old + 0.5, [old]])
    if isinstance(old, float):
        return random.choice([-old, int(old), old * 2, str(old)])
    if isinstance(old, str):
        return random.choice(
            [old + "x", old[::-1], old.swapcase(), old[:-1], f"../{old}", f"{old}/..", [old], old[:1] * (_LONG + 1)]
        )
    if isinstance(old, list):
        return random.choice(
            [
                old[1:],
                old * 2,
                old * 21,
                old * 20,
                {str(i): each for i, each in enumerate(old)},
                old[0] if old else None,
            ]
        )
    if isinstance(old, dict):
        return _renamed(random, old)
    return random.choice([0, "", [], {}, False])  # null, and a huge integer


def _renamed(random: Random, old: dict[str, Any]) -> Any:
    new = dict(old)
    how = random.randrange(5)
    name = random.choice(list(new) or ["x"])
    if how == 0:
        new.pop(name, None)
    elif how == 1:
        new[random.choice(_NAMES)] = new.pop(name, 1)
    elif how == 2:
        new[random.choice(_NAMES)] = copy.deepcopy(new.get(name, 1))
    elif how == 3:
        new[_TWICE + name] = copy.deepcopy(new.get(name, 1))
    else:
        return list(new.values())
    return new


_CHANGES: Final[tuple[Callable[[Random, Any], Any], ...]] = (_replaced, _nearby, _nearby)


def mutated(random: Random, plain: dict[str, Any]) -> str:
    """
    Return a sealed document whose seal fits, with one or two changes somewhere in it.

    :param random: what decides.
    :param plain: the fields of a document that is read.
    """
    document = {"document": copy.deepcopy(plain)}
    for _ in range(random.choice([0, 1, 1, 1, 1, 2])):
        container, name = random.choice(_places(document))
        container[name] = random.choice(_CHANGES)(random, container[name])
    fields = document["document"] if isinstance(document["document"], dict) else {"document": document["document"]}
    # Repeated names and NaN are refused before the seal is looked at; 1e3 is the same number as 1000.0.
    text = json.dumps(strict.sealed(fields, VERSION))
    return text.replace(f'"{_NAN}"', "NaN").replace(f'"{_TWICE}', '"').replace("1000.0", "1e3")
