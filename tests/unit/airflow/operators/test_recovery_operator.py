# SPDX-License-Identifier: Apache-2.0
"""A catalogue by operator, of objects in a folder; no broker is named, and none is asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_DOCUMENT, Catalogue
from airflow_provider_rlmm.operators.recovery import RecoverRemoteLogOperator
from tests.recovery import Bucket, rows_in, segment
from tests.recovery_sources import CLUSTER_ID, FIRST, SECOND, audited, copied, keep
from tests.unit.airflow.operators.test_operators import connect
from tests.unit.cli.test_recover_command import put_into


@pytest.fixture
def bucket() -> Bucket:
    bucket = Bucket()
    bucket.copy(FIRST)
    bucket.copy(SECOND)
    return bucket


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bucket: Bucket) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    uri = put_into(tmp_path / "bucket", bucket)
    connect(
        monkeypatch, storage_uri=uri, layout="aiven", key_prefix="kp/", kafka_conn_id=None, expected_cluster_id=None
    )
    return tmp_path


def run(folder: Path, pushed: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    operator = RecoverRemoteLogOperator(task_id="recover", output_uri=str(folder), **arguments)
    kept = {} if pushed is None else pushed
    ti = SimpleNamespace(xcom_push=lambda key, value: kept.update({key: value}))
    return operator.execute({"ti": ti})  # type: ignore[typeddict-item]


def test_it_makes_the_catalogue_that_the_command_makes(connected: Path) -> None:
    keep(connected / "work", copied(FIRST))
    output = connected / "catalogue"
    result = run(output)
    made = Catalogue.from_json((output / CATALOGUE_DOCUMENT).read_text())
    assert result == {
        "catalogue": str(output), "sha256": made.file.sha256, "kinds": {"COPIED": 2}, "cluster_id": None, "problems": 0,
    }  # fmt: skip
    assert [row.proved_by for row in rows_in(str(output))] == ["SNAPSHOT", "MANIFEST"]
    with pytest.raises(CatalogueError, match="an empty folder"):
        run(output)


def test_what_is_named_reaches_the_catalogue(connected: Path) -> None:
    audit = audited(connected / "other", FIRST)
    snapshot = keep(connected / "other", copied(SECOND))
    result = run(
        connected / "1", topics=["orders"], cluster_id=CLUSTER_ID, snapshots=[str(snapshot)], audits=[str(audit)],
        manifests_per_second="1000",
    )  # fmt: skip
    assert (result["kinds"], result["cluster_id"]) == ({"COPIED": 1, "DELETED": 1}, CLUSTER_ID)


def test_the_cluster_of_the_connection_is_taken(
    connected: Path, monkeypatch: pytest.MonkeyPatch, bucket: Bucket
) -> None:
    uri = (connected / "bucket").as_uri()
    connect(monkeypatch, storage_uri=uri, layout="aiven", key_prefix="kp/", expected_cluster_id="mine")
    assert run(connected / "1")["cluster_id"] == "mine"


def test_what_needs_a_person_fails_after_it_is_written(connected: Path, bucket: Bucket) -> None:
    bucket.copy(segment(4, 30, 39))
    put_into(connected / "bucket", bucket)
    pushed: dict[str, Any] = {}
    with pytest.raises(AirflowFailException, match=r"1 thing in the catalogue .* needs a person, such as: 1 HOLE"):
        run(connected / "1", pushed)
    assert (pushed["return_value"]["problems"], len(rows_in(str(connected / "1")))) == (1, 4)
    assert run(connected / "2", fail_on_problems=False)["problems"] == 1


def test_rows_are_proved_where_that_is_asked_for(connected: Path) -> None:
    assert run(connected / "1")["kinds"] == {"COPIED": 2}
    # These logs are no logs.
    with pytest.raises(AirflowFailException, match="2 DAMAGED"):
        run(connected / "2", prove="true", bytes_per_second="1000000")
