# SPDX-License-Identifier: Apache-2.0
"""
How many examples a property is tried with, and of how many cases a loop over all of them tries some.

``EXAMPLES=10`` makes it a tenth of them, drawn anew in each run, as ``make test`` does; without it all are tried.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

PERCENT = int(os.environ.get("EXAMPLES") or 100)


def examples(number: int = 100) -> int:
    """Return what is left of a number of examples, at least one; without a number of Hypothesis's own."""
    return max(1, number * PERCENT // 100)


def some(cases: Sequence[T]) -> list[T]:
    """Return the cases to try, in their order: one of each few neighbours, so that no stretch of them is left out."""
    number = min(len(cases), examples(len(cases)))
    bounds = [part * len(cases) // number for part in range(number + 1)] if number else [0]
    return [cases[random.SystemRandom().randrange(*part)] for part in pairwise(bounds)]
