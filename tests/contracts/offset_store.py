# SPDX-License-Identifier: Apache-2.0
"""What every store of committed offsets promises; both stores run this suite."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.log.protocol import OffsetStore


class OffsetStoreContract:
    @pytest.fixture
    def store(self) -> OffsetStore:
        raise NotImplementedError

    def test_nothing_is_committed_at_first(self, store):
        assert dict(store.committed()) == {}

    def test_what_was_committed_is_remembered_per_partition(self, store):
        store.commit({0: 7, 2: 0})

        assert dict(store.committed()) == {0: 7, 2: 0}

    def test_a_commit_leaves_other_partitions_alone(self, store):
        store.commit({0: 7, 1: 8})

        store.commit({1: 9})

        assert dict(store.committed()) == {0: 7, 1: 9}

    def test_a_commit_may_go_back(self, store):
        store.commit({0: 7})

        store.commit({0: 3})

        assert dict(store.committed()) == {0: 3}

    def test_an_empty_commit_changes_nothing(self, store):
        store.commit({})

        assert dict(store.committed()) == {}
