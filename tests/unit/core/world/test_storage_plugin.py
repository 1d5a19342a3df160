# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.world.storage_plugin import compare_plugin

LOCAL = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
AIVEN = "io.aiven.kafka.tieredstorage.RemoteStorageManager"


@pytest.mark.parametrize(
    ("layout", "classes", "fits", "words"),
    [
        (
            "local-tiered-storage",
            {1: LOCAL, 2: LOCAL},
            True,
            "LocalTieredStorage', whose layout is local-tiered-storage",
        ),
        ("aiven", {1: AIVEN}, True, "whose layout is aiven"),
        ("aiven", {1: LOCAL}, False, "the connection's layout is aiven: no object would be found"),
        ("local-tiered-storage", {1: AIVEN}, False, "whose layout is aiven, and"),
        ("aiven", {1: AIVEN, 2: LOCAL}, False, "aiven and local-tiered-storage"),
        ("aiven", {1: "com.example.Manager"}, None, "run 'com.example.Manager'; nothing is known"),
        ("aiven", {1: AIVEN, 2: "com.example.Manager"}, None, "nothing is known"),
        ("template", {1: AIVEN}, None, "nothing is known of whether its layout is template"),
        ("aiven", {1: None}, None, "is empty"),
        ("aiven", {1: None, 2: AIVEN}, True, "whose layout is aiven"),
        ("aiven", {}, None, "no broker says"),
    ],
)
def test_layouts_and_plugins(layout: str, classes: dict[int, str | None], fits: bool | None, words: str) -> None:
    answer = compare_plugin(layout, classes)
    assert answer.fits is fits
    assert words in answer.sentence


def test_a_name_from_a_broker_is_quoted() -> None:
    assert "\u202e" not in compare_plugin("aiven", {1: "com.\u202eexample"}).sentence
