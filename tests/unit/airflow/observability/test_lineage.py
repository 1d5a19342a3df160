# SPDX-License-Identifier: Apache-2.0
"""What OpenLineage is told: names of datasets, what a dry run did not write, counts, and nothing that asks a broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openlineage.client.serde import Serde

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.observability.lineage import DatasetName, storage_dataset, told_by
from airflow_provider_rlmm.operators.cleaner import CleanMetadataPartitionOperator, ReportRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from airflow_provider_rlmm.operators.scrub import DeleteScrubbedObjectsOperator

TOPIC = ("kafka://b1:9092", "__remote_log_metadata")
BUCKET = ("s3://bucket", "tiered/prod")


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = {
        "conn_type": "kafka",
        "extra": json.dumps({"bootstrap.servers": "b1:9092, b2:9092", "sasl.password": "x1y2z3"}),
    }
    rlmm = {"conn_type": "rlmm", "extra": json.dumps({"storage_uri": "s3://bucket/tiered/prod/"})}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps(rlmm))


def names(found: list[Any]) -> list[tuple[str, str]]:
    return [(dataset.namespace, dataset.name) for dataset in found]


def facet(lineage: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Serde.to_json(lineage.run_facets["remoteLog"]))
    return document


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("s3://bucket/a/b/", "s3://bucket", "a/b"),
        ("s3a://bucket", "s3://bucket", "/"),
        ("gcs://bucket/a", "gs://bucket", "a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net", "a"),
        ("wasb://c@account.blob.core.chinacloudapi.cn/a", "abfss://c@account.dfs.core.chinacloudapi.cn", "a"),
        ("az://container/a", "az://container", "a"),
        ("file:///mnt/tiered/", "file", "/mnt/tiered"),
        ("file:///", "file", "/"),
    ],
)
def test_storage_is_named_as_openlineage_spells_it(uri: str, namespace: str, name: str) -> None:
    assert storage_dataset(uri) == DatasetName(namespace, name)


def test_a_cleaning_task_reads_and_writes_both() -> None:
    task = CleanMetadataPartitionOperator(task_id="clean", dry_run_only=False, metadata_partition=3)
    begun = task.get_openlineage_facets_on_start()
    assert (names(begun.inputs), names(begun.outputs)) == ([TOPIC, BUCKET], [])
    task.told({"segments_deleted": 5, "dry_run": False})
    done = task.get_openlineage_facets_on_complete(None)
    assert (names(done.inputs), names(done.outputs)) == ([TOPIC, BUCKET], [TOPIC, BUCKET])
    assert facet(done) == {
        "_producer": "urn:airflow-provider-rlmm",
        "_schemaURL": "urn:airflow-provider-rlmm:facets:1-0-0:RemoteLogRunFacet",
        "connection": "rlmm_default",
        "dryRun": False,
        "counts": {"segments_deleted": 5},
    }
    assert "x1y2z3" not in Serde.to_json(done.run_facets)


def test_a_dry_run_writes_nothing() -> None:
    task = DeleteScrubbedObjectsOperator(task_id="delete", dry_run_only=False)
    task.told({"would_delete": {"FINISHED": {"objects": 2, "bytes": 7}}, "dry_run": True})
    done = task.get_openlineage_facets_on_complete(None)
    assert names(done.outputs) == []
    assert facet(done)["counts"] == {"would_delete.FINISHED.objects": 2, "would_delete.FINISHED.bytes": 7}


def test_a_task_that_fails_tells_what_it_has_counted() -> None:
    task = ReportRemoteLogCleanupOperator(task_id="report")
    task.told({"needs_person": 2, "dry_run": False, "report": "/work/report.json"})
    failed = task.get_openlineage_facets_on_failure(None)
    assert (names(failed.inputs), names(failed.outputs)) == ([], [])
    assert facet(failed)["counts"] == {"needs_person": 2}


def test_a_reader_reads_the_topic_alone() -> None:
    assert names(RemoteLogMetadataDoctorOperator(task_id="doctor").get_openlineage_facets_on_start().inputs) == [TOPIC]


@pytest.mark.parametrize(
    "servers",
    ["SASL_SSL://me:hunter2@b1:9092", "me:hunter2,x@b1:9092", "b1:9092?token=hunter2", "b1:9092,me:hunter2@b2", ""],
)
def test_a_login_among_the_addresses_is_told_nobody(servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task fails for it, and OpenLineage is told of tasks that fail, too."""
    kafka = {"conn_type": "kafka", "extra": json.dumps({"bootstrap.servers": servers})}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    told = DeleteScrubbedObjectsOperator(task_id="delete", dry_run_only=False).get_openlineage_facets_on_failure(None)
    assert names(told.inputs) == [BUCKET]
    assert "hunter2" not in f"{told}"


def test_without_its_connection_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    task = RemoteLogMetadataDoctorOperator(task_id="doctor", rlmm_conn_id="rlmm_gone")
    with pytest.raises(ConfigurationError, match="'rlmm_gone' does not exist"):
        task.get_openlineage_facets_on_start()


@pytest.mark.parametrize("made", [lambda: {"a": True, "b": 1.5, "c": "3", "d": None, "e": [1]}])
def test_only_numbers_are_counted(made: Callable[[], dict[str, Any]]) -> None:
    assert told_by(made()).counts == {}
    assert told_by({f"n{i}": i for i in range(200)}).counts.keys() == {f"n{i}" for i in range(100)}
