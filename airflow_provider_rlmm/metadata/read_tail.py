# SPDX-License-Identifier: Apache-2.0
"""What ties a plan to the log that it was made from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadTail:
    """
    The last records of a metadata partition that a plan was made from: they must be there when it is applied.

    :param begin: offset of the first of them, inclusive.
    :param end: exclusive.
    :param sha256: of all of them, lower-case hex.
    """

    begin: int
    end: int
    sha256: str
