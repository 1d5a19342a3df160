# SPDX-License-Identifier: Apache-2.0
"""
Plan and generations in a bucket.

The session's workers know nothing of the store: no credentials are in their environment, so what opens it came with the task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_rlmm.core.base import object_stores
from airflow_provider_rlmm.core.base.file_systems import list_files, list_folders
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_named, read_plan
from airflow_provider_rlmm.core.storage.handed_store import HandedStore
from airflow_provider_rlmm.features.retention.spark import stores
from airflow_provider_rlmm.features.retention.spark.generations import WrittenGeneration
from airflow_provider_rlmm.features.retention.spark.plan import save_plan
from airflow_provider_rlmm.features.retention.spark.plan_folder import PlanFolder
from airflow_provider_rlmm.features.retention.spark.stores import Stores
from airflow_provider_rlmm.operators.task_folder import handed_over
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server
from tests.spark.test_generations import Log, log  # noqa: F401  # a fixture
from tests.spark.test_plan import ABSENT, HEADER
from tests.spark.test_segment_retention import JOB, RUN_SEVERAL, Cluster, cluster, job_arguments, submit  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEY, SECRET = "AKIAPLANTEDKEYID1234", "pl4nted/secret+value="


@pytest.fixture(scope="module")
def server() -> Iterator[AwsServer]:
    with running_aws_server() as aws:
        yield aws


@pytest.fixture
def aws(server: AwsServer) -> Iterator[AwsServer]:
    """A store that takes one key."""
    server.access_keys = {KEY, "the-test"}
    server.asked.clear()
    yield server
    server.access_keys = None


def options(server: AwsServer, secret: str = SECRET, key: str = KEY) -> dict[str, str]:
    address = {"aws_region": REGION, "aws_endpoint": server.url, "allow_http": "true"}
    return {**address, "aws_access_key_id": key, "aws_secret_access_key": secret}


@pytest.fixture
def opened(aws: AwsServer) -> Iterator[AwsServer]:
    """The driver has been handed what opens the store."""
    openers, in_use = object_stores._openers[:], stores._in_use[:]
    Stores.of(HandedStore(options(aws)), [f"s3://{BUCKET}"]).use()
    yield aws
    object_stores._openers[:], stores._in_use[:] = openers, in_use


def plan_of(spark: SparkSession, written: WrittenGeneration, uri: str) -> PlanSummary:
    folder = PlanFolder(uri)
    folder.clear()
    return save_plan(spark, written.data_set, ABSENT, folder, HEADER)


def content(uri: str) -> tuple[PlanSummary, list[bytes]]:
    """Return what a plan says, but for how long its job took, and the bytes of its files."""
    summary = read_plan(uri)
    return replace(summary, job={}), [read_named(uri, file).to_pybytes() for _, file in sorted(summary.files.items())]


def test_plan_and_generations_in_a_bucket_equal_those_of_a_folder(
    log: Log,  # noqa: F811
    spark: SparkSession,
    opened: AwsServer,
    tmp_path: Path,
) -> None:
    local, bucket = str(tmp_path / "work"), f"s3a://{BUCKET}/work"
    for uri in (local, bucket):
        store = GenerationStore(f"{uri}/segments-c")
        first, second = log.run(store, 0.6), log.run(store)
        assert (first.read_on_from, second.read_on_from) == (None, 1)
        assert store.numbers() == [2, 1]
        plan_of(spark, second, f"{uri}/plan")
    assert content(f"{bucket}/plan") == content(f"{local}/plan")
    assert content(f"{bucket}/plan")[0].planned.segments > 100
    names = [[*list_files(f"{uri}/plan"), *list_folders(f"{uri}/plan")] for uri in (local, bucket)]
    assert names[0] == names[1]
    assert {asked.access_key for asked in opened.asked} == {KEY}


@pytest.mark.rare
@pytest.mark.integration
@pytest.mark.timeout(1800)
def test_the_job_works_in_a_bucket_by_what_is_handed_to_it(
    cluster: Cluster,  # noqa: F811
    aws: AwsServer,
    tmp_path: Path,
) -> None:
    """By ``spark-submit``: a plan in a folder, two in a bucket, the second with other settings, and with a wrong key."""
    script, events = tmp_path / "run_several.py", tmp_path / "events"
    script.write_text(RUN_SEVERAL)
    events.mkdir()
    now_ms, bucket = str(cluster.state.observed_at_ms), f"s3a://{BUCKET}/work"
    pipes = [tmp_path / f"{name}.json" for name in ("first", "second", "wrong")]
    local = job_arguments(cluster, tmp_path, tmp_path / "local", now_ms=now_ms)
    in_bucket = [
        [
            *job_arguments(cluster, tmp_path, tmp_path, now_ms=now_ms),
            *("--output", f"{bucket}/{pipe.stem}", "--data-set", f"{bucket}/segments", "--store-options", str(pipe)),
        ]
        for pipe in pipes
    ]
    in_bucket[1] += ["--what-if", "retention.ms=0"]
    argvs = [local, *in_bucket]
    right = json.dumps({"options": options(aws)})
    wrong = json.dumps({"options": options(aws, key="AKIAANOTHERKEYID1234")})
    seen = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    with (
        handed_over(pipes[0], right),
        handed_over(pipes[1], right),
        handed_over(pipes[2], wrong),
    ):
        done = submit(script, tmp_path, str(JOB), json.dumps(argvs), conf=seen)
    assert "statuses [0, 0, 0, 1]" in done.stdout, done.stdout
    said = done.stdout + done.stderr
    assert "read 0 records since generation 1" in said
    assert "InvalidAccessKeyId" in said.partition("no plan: ")[2].partition("\n")[0]

    openers = object_stores._openers[:]
    object_stores.open_stores_by(lambda uri: HandedStore(options(aws)).open(uri))
    try:
        plans = [content(uri) for uri in (str(tmp_path / "local"), f"{bucket}/first", f"{bucket}/second")]
        assert plans[0] == plans[1] == plans[2]
        assert plans[0][0].planned.segments > 0
        assert "what-if.json" in list_files(f"{bucket}/second")
        assert "what-if.json" not in list_files(f"{bucket}/first")
    finally:
        object_stores._openers[:] = openers
    # What Spark's pages show is what the event log holds.
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert "SparkListenerTaskEnd" in logged
    for text in (said, logged):
        assert not [secret for secret in (SECRET, "AKIAANOTHERKEYID1234") if secret in text]
