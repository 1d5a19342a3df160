# SPDX-License-Identifier: Apache-2.0
"""The page about KIP-405 names modules that exist, and leaves out no class of Kafka's remote log."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.pages import DOCS

ROOT = DOCS.parent
PAGE = (DOCS / "kip-405.md").read_text()
CLASSES = PAGE.partition("\n## When the metadata topic is lost\n")[0]
ROWS = [line.strip("| \n").split(" | ") for line in CLASSES.splitlines() if line.startswith("| ")]

# Of kafka-storage and kafka-storage-api 4.3.1, without generated classes and those that serialise them.
KAFKA_CLASSES = (ROOT / "tests" / "data" / "kafka_remote_log_classes.txt").read_text().split()


@pytest.mark.parametrize("name", KAFKA_CLASSES)
def test_every_class_of_kafkas_remote_log_is_named(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_every_row_says_what_became_of_it_and_names_modules_that_exist(row: list[str]) -> None:
    if row[0].startswith(("Kafka", "KIP-405", "---")):
        return
    _, counterpart, word = row
    assert re.match(r"\*\*(done|otherwise|left to the broker)\*\*", word)
    modules = re.findall(r"`((?!rlmm )[a-z_.]+)`", counterpart)
    assert modules or counterpart == "none" or "rlmm " in counterpart
    for module in modules:
        path = ROOT / "airflow_provider_rlmm" / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), module
