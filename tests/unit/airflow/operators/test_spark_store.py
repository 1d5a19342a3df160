# SPDX-License-Identifier: Apache-2.0
"""A Spark job whose driver runs in the task: how it comes to open the work folder's store."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError
from airflow_provider_rlmm.core.storage.handed_store import HandedStore
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server
from tests.spark_jars import connector_jar
from tests.unit.airflow.operators.test_operators import cluster, connect, context, observed, work  # noqa: F401  # fixtures

KEY, SECRET = "AKIAPLANTEDKEYID1234", "pl4nted/secret+value="


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, observed: ClusterState) -> Iterator[AwsServer]:  # noqa: F811
    """The work folder is in a bucket that takes one key."""
    with running_aws_server() as server:
        server.access_keys = {KEY, "the-test"}
        extra = {"region_name": REGION, "endpoint_url": server.url}
        document = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_WORK", json.dumps(document))
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", f"s3://{BUCKET}/rlmm")
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_CONN_ID", "work")
        yield server


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the job is started with; it reads what is handed to it."""
    found: dict[str, Any] = {}

    def submit(self: Any, application: str) -> None:
        found["command"] = command = self._build_spark_submit_command(application)
        if "--store-options" in command:
            pipe = Path(command[command.index("--store-options") + 1])
            found["mode"], found["folder"] = stat.filemode(pipe.stat().st_mode), pipe.parent
            found["read"] = pipe.read_text()

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    return found


def evaluate(tmp_path: Path) -> None:
    SegmentRetentionOperator(task_id="evaluate", jars=connector_jar(tmp_path)).execute(context())


def test_what_opens_the_work_folder_goes_to_the_job_through_a_pipe(
    aws: AwsServer, seen: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(tmp_path)
    assert seen["mode"] == "prw-------", "it is in no file"
    assert not seen["folder"].exists()
    handed = HandedStore.from_json(seen["read"], "it")
    assert (handed.options["endpoint"], handed.options["region"]) == (aws.url, REGION)
    assert SECRET in handed.secrets
    assert f"s3://{BUCKET}/rlmm/segments-cluster-1" in seen["command"]
    for text in (" ".join(seen["command"]), caplog.text, str(aws.objects())):
        assert SECRET not in text


def test_a_job_that_does_not_ask_for_it_is_not_waited_for(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkSubmitHook, "submit", lambda *_: None)
    evaluate(tmp_path)


def test_where_the_environment_opens_the_store_or_none_is_used_nothing_is_handed_over(
    aws: AwsServer,
    seen: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Path,  # noqa: F811
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(work))
    evaluate(tmp_path)
    assert "--store-options" not in seen["command"]


def test_a_connection_that_opens_nothing_is_refused_before_the_job_is_started(
    aws: AwsServer, seen: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_CONN_ID", "nowhere")
    with pytest.raises(
        (ConfigurationError, StorageAccessError), match="work_conn_id names 'nowhere', which does not exist"
    ):
        evaluate(tmp_path)
    assert seen == {}
