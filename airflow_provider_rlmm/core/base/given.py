# SPDX-License-Identifier: Apache-2.0
"""
What a person is to give a run, as a sentence says it: as parameters of a DAG, or as an argument of an operator.

Core and features say it so, by :func:`parameters` and :func:`argument`: documents keep their sentences, and Airflow's pages
and logs show them as they are. A terminal has neither DAG nor operator: :func:`said_otherwise` finds what was given, and says
it by options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

ANY_DAG: Final = "the DAG"
DELETING_DAGS: Final = "the cleaner's or the scrub's DAG"
_OPERATOR: Final = "the operator"
_STORE: Final = "the store's connection"

_VALUE: Final = r'(?:"(?:[^"\\]|\\.)*"|true|-?[0-9][0-9.eE+-]*)'
_PAIR: Final = rf'"[a-z_]+": {_VALUE}'
_GIVEN: Final = re.compile(
    rf"the (?:parameters? (?P<pairs>{_PAIR}(?:, {_PAIR})*) of (?:{DELETING_DAGS}|{ANY_DAG})"
    rf'|argument "(?P<argument>[a-z_]+)"(?:: (?P<value>{_VALUE}))? of {_OPERATOR}'
    rf"|extra (?P<extra>{_PAIR}) of {_STORE})"
)


def parameters(values: Mapping[str, object], of: str = ANY_DAG) -> str:
    """
    Say parameters of a DAG, such as ``the parameter "max_share": 0.6 of the DAG``.

    :param values: by name; texts, numbers or ``True``.
    :param of: which DAG: :data:`ANY_DAG` or :data:`DELETING_DAGS`.
    """
    return f"the parameter{'' if len(values) == 1 else 's'} {json.dumps(dict(values))[1:-1]} of {of}"


def argument(name: str, value: object = None) -> str:
    """
    Say an argument of an operator, such as ``the argument "lineages": "…" of the operator``.

    :param name: of the argument.
    :param value: a text, a number or ``True``; ``None`` where any will do.
    """
    said = json.dumps(name) if value is None else json.dumps({name: value})[1:-1]
    return f"the argument {said} of {_OPERATOR}"


def extra(name: str) -> str:
    """
    Say what is true in the extra of the connection that opens a store.

    :param name: its name there.
    """
    return f"the extra {json.dumps({name: True})[1:-1]} of {_STORE}"


def said_otherwise(text: str, say: Callable[[Mapping[str, Any]], str]) -> str:
    """
    Return a sentence with what a person is to give said in other words.

    :param text: the sentence.
    :param say: says it: by name, the value, ``None`` where any will do.
    """

    def of(found: re.Match[str]) -> str:
        pairs = found["pairs"] or found["extra"]
        if pairs is None:
            pairs = f'"{found["argument"]}": {found["value"] or "null"}'
        return say(json.loads(f"{{{pairs}}}"))

    return _GIVEN.sub(of, text)
