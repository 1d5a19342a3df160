# SPDX-License-Identifier: Apache-2.0
"""What each test of the command has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.json_outputs import held_against_their_schemas


@pytest.fixture(autouse=True)
def json_is_as_its_schema() -> Iterator[None]:
    """What is printed as JSON is what ``docs/json`` says."""
    with held_against_their_schemas():
        yield
