# SPDX-License-Identifier: Apache-2.0
"""
What switches off each protection by which a run goes by what one before it knew, alone;
:mod:`tests.simulation.protections` plays them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from tests.simulation.folder_moves import PREFIX


def _nothing(*_: object, **__: object) -> None:
    """Stand in for a rule that finds nothing wrong."""


def _any_prefix() -> Iterator[Any]:
    """Copies of living topics may lie where the connection does not look."""
    for user in ("lifecycle.root_proof", "lifecycle.known_places"):
        yield mock.patch(f"airflow_provider_rlmm.{user}.require_known_places", _nothing)


FOLDER_PROTECTIONS: dict[str, tuple[Callable[[], Iterator[Any]], str]] = {
    "every place of living copies is known": (_any_prefix, PREFIX),
}
"""Name → what switches it off, and the move of the world that it is there for."""
