# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""What ``rlmm check`` and the task ``check`` say of a connection: what a run would say, and before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC
from airflow_provider_rlmm.core.log.kafka import health
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.connection_check import RemoteLogCheckOperator
from airflow_provider_rlmm.operators.scrub import RemoteStorageScrubOperator
from tests.builders import Cluster, add, update
from tests.unit.airflow.operators.test_scrub_operators import (
    Run,
    cluster,  # noqa: F401  # a fixture
    connect,
    work,  # noqa: F401  # a fixture
)
from tests.unit.core.storage.test_aiven import custom_prefix

Check = Callable[[], list[dict[str, Any]]]


def by_task() -> list[dict[str, Any]]:
    run = SimpleNamespace(dag_id="dag", run_id="check")
    return RemoteLogCheckOperator(task_id="check").execute({"dag_run": run})  # type: ignore[arg-type]


@pytest.fixture(params=["task", "command"])
def check(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Check:
    """Either of the two; whoever finds something raises, or ends with exit code 4."""
    described = SimpleNamespace(authorized_operations=None, partition_count=2)
    monkeypatch.setattr(type(cluster.topics), "describe_metadata_topic", lambda self, topic: described, raising=False)
    monkeypatch.setattr(
        type(cluster.topics), "list_topics", lambda self: {"alive": cluster.alive.topic_id}, raising=False
    )
    monkeypatch.setattr(health, "check_metadata_topic", lambda *_: [])
    configured(monkeypatch, cluster, "kafka/")
    if request.param == "task":
        return by_task
    for name in ("get_event_log", "get_cluster_topics", "get_proven_clock"):
        monkeypatch.setattr(RemoteLogAccess, name, getattr(RemoteLogMetadataHook, name))
    monkeypatch.setattr(
        StorageAccess, "get_storage_manager", lambda self: RemoteStorageHook("rlmm_default").get_storage_manager()
    )

    def by_command() -> list[dict[str, Any]]:
        options = ["--bootstrap-server", "b:9092", "--storage", "memory:///", "--layout", "aiven", "--json"]
        code = command.run(["check", *options, "--work-dir", str(tmp_path / "of-the-command")])
        document = json.loads(capsys.readouterr().out)
        if code == 4:
            raise AirflowFailException([f["finding"] for f in document["findings"] if not f["good"]])
        assert (code, document["good"]) == (0, True)
        return document["findings"]  # type: ignore[no-any-return]

    return by_command


def configured(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, prefix: str, *former: str) -> None:
    """Have the connection name these prefixes of the storage that is there."""
    storage = InMemoryRemoteStorageManager(AivenLayout(prefix, former), clock=cluster.clock)
    storage._objects.update(cluster.storage._objects)
    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", lambda self: storage)
    connect(
        monkeypatch, storage_uri="memory:///", layout="aiven", key_prefix=prefix, former_key_prefixes=",".join(former)
    )


def test_all_is_well_where_a_run_would_go_on(check: Check, cluster: Cluster) -> None:
    before = (set(cluster.storage.keys), dict(cluster.log.high_water_marks()))
    found = check()
    said = [entry["finding"] for entry in found]
    assert any("the newest copied segments of 1 living topic are at kafka" in sentence for sentence in said)
    assert (set(cluster.storage.keys), dict(cluster.log.high_water_marks())) == before


def test_a_retention_of_the_metadata_topic_that_is_too_short_is_found(check: Check, cluster: Cluster) -> None:
    cluster.topics.settings[METADATA_TOPIC] = {"retention.ms": 29 * DAY_MS}
    with pytest.raises(AirflowFailException, match=r"that is too soon; set retention\.ms=-1 on __remote_log_metadata"):
        check()


@pytest.mark.parametrize(
    ("prefix", "said"),
    [("nonsense", "is not at nonsense"), ("kafka", r"did you mean the key prefix .kafka/"), ("", "is not at /")],
)
def test_a_wrong_prefix_is_found_before_a_run_refuses_it(
    check: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, prefix: str, said: str
) -> None:
    configured(monkeypatch, cluster, prefix)
    with pytest.raises(AirflowFailException, match=said):
        check()
    for refused in (
        lambda: CheckRemoteLogCleanupOperator(task_id="check", dry_run_only=True).execute(Run().context),
        lambda: RemoteStorageScrubOperator(task_id="scrub").execute(Run().context),
    ):
        with pytest.raises(StorageRootError, match=said):
            refused()


def test_a_forgotten_former_prefix_is_found_before_a_run_refuses_it(
    check: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.foreign(add(cluster.alive, 500))
    cluster.foreign(update(cluster.alive, 500, S.COPY_SEGMENT_FINISHED, custom_metadata=custom_prefix("old/")))
    with pytest.raises(AirflowFailException, match=r"below the key prefix .*old/.*former_key_prefixes"):
        check()
    configured(monkeypatch, cluster, "kafka/", "old/")
    for key in AivenLayout("old/").required_keys(add(cluster.alive, 500)):
        RemoteStorageHook("rlmm_default").get_storage_manager().put_object(key, b"x")  # type: ignore[attr-defined]
    check()


def test_the_forms_button_reads_no_topic_and_says_so(
    check: Check, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: object) -> None:
        raise AssertionError("a request of the API server reads no topic")

    configured(monkeypatch, cluster, "nonsense")
    monkeypatch.setattr(RemoteLogMetadataHook, "get_event_log", never)
    good, text = RemoteLogMetadataHook().test_connection()
    assert good
    assert "nothing shows yet that it belongs to this cluster" in text
    assert "'rlmm check', or the task check of the DAG remote_log_doctor, can" in text
