# SPDX-License-Identifier: Apache-2.0
"""A person names the places of a storage: all of them, and nothing else."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.root import RootCheck, RootExpectation, expected_roots
from tests.builders import CLUSTER_ID, Cluster, add

ONE, OLD = "memory://one", "memory://"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(layout=AivenLayout("one/", ["old"]))
    for key in made.layout.required_keys(add(made.alive, 0), made.layout.places[1]):
        made.storage.put_object(key, b"x")
    return made


def check(cluster: Cluster, expected: str | None) -> RootCheck:
    return cluster.storage.check_root(
        frozenset({cluster.alive.topic_id}), CLUSTER_ID, RootExpectation(expected_root=expected)
    )


def test_what_is_printed_is_what_is_expected(cluster: Cluster) -> None:
    printed = check(cluster, None).to_paste
    assert printed == f"expected_root = {ONE} {OLD}"
    named = check(cluster, printed.removeprefix("expected_root = "))
    assert named.expected_places == {"one", "old"}
    root_id = cluster.storage.stamp_root(check(cluster, None))[0].root_id
    assert check(cluster, f"{root_id}, {OLD}").expected_places == {"one", "old"}


@pytest.mark.parametrize("expected", [ONE, OLD, f"{ONE} {UUID(int=5)}"])
def test_each_place_must_be_named(cluster: Cluster, expected: str) -> None:
    with pytest.raises(StorageRootError, match="expected_root, which names each place"):
        check(cluster, expected)


def test_what_is_named_and_is_no_place_is_refused(cluster: Cluster) -> None:
    """A person knows of a former prefix that the connection has forgotten."""
    with pytest.raises(
        StorageRootError, match=r"names memory://forgotten, and no place .* one at memory://one, old at"
    ):
        check(cluster, f"{ONE} {OLD} memory://forgotten")


@pytest.mark.parametrize("text", ["a b", "a,b", " a , b ", "a\nb", '["a", "b"]', "a,,b"])
def test_several_values_in_any_spelling(text: str) -> None:
    assert expected_roots(text) == ("a", "b")


@pytest.mark.parametrize("text", ["[", "[1]", '["a"', json.dumps([["a"]])])
def test_a_list_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        expected_roots(text)
