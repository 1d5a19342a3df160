# SPDX-License-Identifier: Apache-2.0
"""How many examples a property is tried with: ``EXAMPLES=25`` makes it a quarter of them, as ``make test`` does."""

from __future__ import annotations

import os

PERCENT = int(os.environ.get("EXAMPLES") or 100)


def examples(number: int = 100) -> int:
    """Return what is left of a number of examples, at least one; without a number of Hypothesis's own."""
    return max(1, number * PERCENT // 100)
