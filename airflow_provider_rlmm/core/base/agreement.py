# SPDX-License-Identifier: Apache-2.0
"""Numbers in sentences, with nouns and verbs that agree with them: ``1 segment is``, ``1,204 segments are``."""

from __future__ import annotations


def number_of(count: int, one: str, many: str | None = None) -> str:
    """
    Return a number with what it counts, such as ``1 segment`` or ``1,204 segments are``.

    :param count: of the things.
    :param one: what stands behind the number 1: a noun, or a noun and its verb.
    :param many: what stands behind any other number; ``None`` for ``one`` with an s.
    """
    return f"{count:,} {agreeing(count, one, f'{one}s' if many is None else many)}"


def agreeing(count: int, one: str, many: str) -> str:
    """
    Return the word that agrees with a number which stands elsewhere in its sentence.

    :param count: the number.
    :param one: the word for 1, such as ``is``.
    :param many: the word for any other number, such as ``are``.
    """
    return one if count == 1 else many
