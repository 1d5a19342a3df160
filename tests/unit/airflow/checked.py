# SPDX-License-Identifier: Apache-2.0
"""Operators whose arguments are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_rlmm.operators.checked import CheckedOperator


def checked_operators(base: type[CheckedOperator[Any]] = CheckedOperator) -> Iterator[type[CheckedOperator[Any]]]:
    """Those that are imported, but for the ones that others are made of."""
    for operator in base.__subclasses__():
        if operator.__subclasses__():
            yield from checked_operators(operator)
        else:
            yield operator
