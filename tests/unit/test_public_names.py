# SPDX-License-Identifier: Apache-2.0
"""The page of public names is true."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "public-names.md"
ROWS = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
NAMES = [
    (module, name) for first, names in ROWS for (module,) in [re.findall(r"`([\w.]+)`", first)]
    for name in re.findall(r"`(\w+)`", names)
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_there_and_says_what_it_is(module: str, name: str) -> None:
    assert getattr(import_module(module), name).__doc__


def test_the_page_lists_what_airflow_is_told_of() -> None:
    from airflow_provider_rlmm.provider_info import get_provider_info

    told = {
        module
        for part in ("hooks", "operators")
        for entry in get_provider_info()[part]
        for module in entry["python-modules"]
    }
    assert told <= {module for module, _ in NAMES}
