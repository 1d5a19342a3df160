# SPDX-License-Identifier: Apache-2.0
"""
Text that others wrote, as it may stand in a log line, an error, a report or a page.

A topic name in ``__remote_log_metadata`` is any text that its writer put there: a line break would begin a log line of the
writer's own, a right-to-left mark would turn the words around it, a name of 32 KB would bury them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME = 255
"""Characters of a quoted name that are shown; Kafka's own names have 249 at most."""

MAX_TEXT = 300
"""Characters of a text that are shown, where nothing else is said."""

# Kafka: Topic.validate, but for "." and "..", which do no harm in a text.
_MARKS = re.compile(r"[!-/:-@\[-`{-~]")
"""Punctuation in ASCII: Markdown knows no other marks."""
_KAFKA_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def name_in_text(name: str) -> str:
    """
    Return a topic's name for a text: as it is if Kafka allows it, else in quotes.

    :param name: from the log or from a listing.
    """
    return name if _KAFKA_NAME.fullmatch(name) else in_quotes(name)


def in_quotes(text: str, limit: int = MAX_NAME) -> str:
    """
    Return a text in quotes, ASCII only; everything else and every control character is escaped as Python does it.

    Letters of other scripts are escaped too: those that run from right to left turn the digits and dots beside them.

    :param text: any.
    :param limit: characters between the quotes, at most; an ellipsis behind them stands for the rest.
    """
    shown, whole = _joined(("\\'" if c == "'" else _escaped(c) for c in text), limit)
    return f"'{shown}'" if whole else f"'{shown}'…"


def list_in_quotes(texts: Iterable[str], shown: int = 5) -> str:
    """
    Return the first of some texts in order, each :func:`in_quotes`, in brackets.

    :param texts: any.
    :param shown: how many, at most; an ellipsis stands for the rest.
    """
    ordered = sorted(texts)
    return f"[{', '.join(map(in_quotes, ordered[:shown]))}{', …' if len(ordered) > shown else ''}]"


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """
    Return a text without line breaks, control characters and marks of direction or format: they are escaped.

    :param text: any; letters of all scripts stay.
    :param limit: characters, at most; an ellipsis stands for the rest.
    """
    if len(text) <= limit and text.isprintable():
        return text
    shown, whole = _joined((c if c.isprintable() else _escaped(c) for c in text), limit)
    return shown if whole else f"{shown}…"


def in_markdown(text: str) -> str:
    """
    Return a text that Markdown shows as it is: none of its characters means anything there.

    :param text: any; a line break becomes a space.
    """
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _joined(pieces: Iterable[str], limit: int) -> tuple[str, bool]:
    """Join pieces up to a length, none of them cut in two; tell whether all of them fit."""
    shown: list[str] = []
    room = limit
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            return "".join(shown), False
        shown.append(piece)
    return "".join(shown), True


def human_bytes(value: int) -> str:
    """
    Return a number of bytes for people, such as ``1.5 MiB``.

    :param value: bytes.
    """
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} PiB"
