# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError
from airflow_provider_rlmm.features.retention.spark.cluster import one_cluster


@pytest.mark.parametrize("expected", ["x", None])
def test_addresses_of_one_cluster_name_it(expected: str | None) -> None:
    assert one_cluster({"a:1": "x", "b:1": "x"}, expected) == "x"


@pytest.mark.parametrize(
    ("found", "expected", "why"),
    [
        ({"a:1": "x", "b:1": "y"}, "x", "cluster 'x' is expected, but {'b:1': 'y'} answer for another cluster"),
        ({"a:1": "y"}, "x", "cluster 'x' is expected"),
        ({"a:1": "x", "b:1": "y"}, None, "belong to different clusters: {'a:1': 'x', 'b:1': 'y'}"),
    ],
)
def test_addresses_of_another_cluster_are_refused(found: dict[str, str], expected: str | None, why: str) -> None:
    with pytest.raises(ClusterMismatchError, match=why):
        one_cluster(found, expected)
