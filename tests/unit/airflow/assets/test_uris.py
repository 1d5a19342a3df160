# SPDX-License-Identifier: Apache-2.0
"""Each asset of each connection has a URI of its own, and one that is valid."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest

from airflow_provider_rlmm.assets.by_connection import cleanup_asset, plan_asset
from airflow_provider_rlmm.assets.markers import markers_asset

MAKERS = (cleanup_asset, plan_asset, markers_asset)
CONNECTIONS = ("rlmm_default", "prod", "a b", "a/b", "cleanup")


def test_no_two_share_a_name_or_a_uri() -> None:
    made = [make(conn_id) for make in MAKERS for conn_id in CONNECTIONS]
    assert len({asset.name for asset in made}) == len({asset.uri for asset in made}) == len(made)


@pytest.mark.parametrize("conn_id", CONNECTIONS)
def test_a_uri_names_the_connection_and_what_is_emitted(conn_id: str) -> None:
    for make, what in zip(MAKERS, ("cleanup", "plan", "markers"), strict=True):
        parts = urlsplit(make(conn_id).uri)
        assert (parts.scheme, unquote(parts.netloc), parts.path) == ("rlmm", conn_id, f"/{what}")
        assert make(conn_id).uri.isascii()
