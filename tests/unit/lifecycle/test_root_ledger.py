# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.lifecycle.root_ledger import ROOTS_DOCUMENT, record_roots, recorded_roots


def test_of_each_place_the_latest_root_is_known(tmp_path: Path) -> None:
    uri = str(tmp_path / "cluster-c")
    assert recorded_roots(uri, "c") == frozenset()
    record_roots(uri, "c", {"one": "a"})
    record_roots(uri, "c", {"two": "b"})
    assert recorded_roots(uri, "c") == {"a", "b"}
    record_roots(uri, "c", {"one": "c"})
    assert recorded_roots(uri, "c") == {"b", "c"}, "whoever goes back to root a has to prove it again"


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    record_roots(str(tmp_path), "c", {"one": "a"})
    before = (tmp_path / ROOTS_DOCUMENT).stat().st_mtime_ns
    record_roots(str(tmp_path), "c", {"one": "a"})
    assert (tmp_path / ROOTS_DOCUMENT).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"cluster_id": "other", "root_ids": {}}', '{"cluster_id": "c", "root_ids": {"one": 7}}']
)
def test_what_cannot_be_read_or_is_another_clusters_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    (tmp_path / ROOTS_DOCUMENT).write_text(content)
    with pytest.raises(PlanError, match="storage roots that earlier runs have recorded, cannot be read"):
        recorded_roots(str(tmp_path), "c")
    with pytest.raises(PlanError):
        record_roots(str(tmp_path), "c", {"one": "a"})
    assert (tmp_path / ROOTS_DOCUMENT).read_text() == content
