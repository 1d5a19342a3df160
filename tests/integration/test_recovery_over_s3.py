# SPDX-License-Identifier: Apache-2.0
"""A catalogue of a bucket whose server slows down, or is away for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_DOCUMENT, Catalogue
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy
from airflow_provider_rlmm.core.segments.pacing import StoragePatience
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from dev.s3 import BUCKET, MotoServer, store_options
from dev.s3_proxy import S3Proxy
from tests.recovery import Bucket, rows_in, segment

pytestmark = pytest.mark.integration

SEGMENTS = 12


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[S3Proxy]:
    """What stands before a server whose bucket holds some segments."""
    bucket = Bucket(LocalTieredStorageLayout())
    for number in range(SEGMENTS):
        bucket.copy_plain(segment(number, 20 * number, 20 * number + 19))
    with MotoServer(tmp_path / "s3") as server, S3Proxy(server.port) as proxy:
        for key in bucket.storage.keys:
            server.client.put_object(Bucket=BUCKET, Key=key, Body=bucket.storage.fetch_object(key))
        yield proxy


def make(proxy: S3Proxy, folder: Path, timeout_s: float = 60.0) -> Catalogue:
    options = store_options(proxy.endpoint)
    storage = ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", LocalTieredStorageLayout(), options=options)
    request = CatalogueRequest(storage_uri=f"s3://{BUCKET}", output=str(folder), prove=True)
    return make_catalogue(storage, request, clock=lambda: 77, patience=StoragePatience(timeout_s))


def test_a_server_that_slows_down_is_asked_until_all_is_there(proxy: S3Proxy, tmp_path: Path) -> None:
    expected = make(proxy, tmp_path / "whole")
    assert {row.proved_by for row in rows_in(str(tmp_path / "whole"))} == {ProvedBy.CONTENTS}
    proxy.throttle_every = 3
    assert make(proxy, tmp_path / "throttled") == expected
    assert proxy.throttled > SEGMENTS


@pytest.mark.parametrize("passed", [2, *(pytest.param(n, marks=pytest.mark.rare) for n in (0, 1, 30, 60))])
def test_a_server_that_goes_away_is_said_and_one_that_is_back_makes_the_catalogue(
    proxy: S3Proxy, tmp_path: Path, passed: int
) -> None:
    expected, output = make(proxy, tmp_path / "whole"), tmp_path / "away"
    throttles, until = proxy.throttles, proxy.passed + passed

    def going_away() -> bool:
        proxy.down = proxy.down or proxy.passed >= until
        return throttles()

    proxy.throttles = going_away  # type: ignore[method-assign]
    proxy.down = not passed
    try:
        made = make(proxy, output, timeout_s=1.0)
    except StorageUnavailableError:
        assert not (output / CATALOGUE_DOCUMENT).exists()
    else:
        # Its listing broke off: nothing of it is called copied, and that is said.
        assert list(made.problems())
        assert not any(row.kind.is_whole for row in rows_in(str(output)))
        output = tmp_path / "again"
    assert proxy.refused
    proxy.throttles, proxy.down = throttles, False  # type: ignore[method-assign]
    assert make(proxy, output) == expected
