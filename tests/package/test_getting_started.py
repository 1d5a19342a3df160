# SPDX-License-Identifier: Apache-2.0
"""``docs/getting-started.md``, word for word, in empty environments, from the built wheel, on brokers with orphans."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev import ensure_spark_jars, spark_version, tiering
from dev.broker import LocalKafka
from dev.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoServer
from dev.s3_tiering import S3Kafka
from tests.page_commands import exports, follow
from tests.scrub import scrub

pytestmark = [pytest.mark.system, pytest.mark.timeout(1_200)]


def local_exports(kafka: LocalKafka) -> str:
    """Return what a reader writes there whose broker tiers to a folder."""
    return exports(
        {
            "BOOTSTRAP": kafka.bootstrap_servers,
            "STORAGE": kafka.remote_dir.as_uri(),
            "LAYOUT": "local-tiered-storage",
            "KEY_PREFIX": "",
        }
    )


@contextmanager
def with_orphans(kafka: LocalKafka) -> Iterator[uuid.UUID]:
    """A topic that lives, and one that was deleted while its broker died; nothing of it, and all of the other, is left."""
    for topic in ("living", "deleted"):
        tiering.create_tiered_topic(kafka, topic, 2)
        tiering.produce_until_remote(kafka, topic, 3)
    orphan = tiering.provoke_scenario_b(kafka, "deleted")
    before = kafka.remote_objects()
    of_the_orphan = tiering.remote_files(kafka, orphan)
    assert of_the_orphan
    yield orphan
    assert tiering.remote_files(kafka, orphan) == frozenset()
    assert kafka.remote_objects().keys() >= before.keys() - of_the_orphan
    tiering.tiering_alive(kafka, "living")


@pytest.mark.rare
def test_the_page_in_a_terminal(tmp_path: Path, built: Path) -> None:
    with LocalKafka() as kafka, with_orphans(kafka):
        said = follow(local_exports(kafka), "In a terminal", folder=tmp_path, built=built)
        assert "not marked yet" in said
        assert "orphaned user partitions: none" in said
        assert f"--cluster-id {kafka.cluster_id}" in said
        assert scrub(kafka) == []


@pytest.mark.rare
def test_the_page_in_a_terminal_over_s3(tmp_path: Path, built: Path) -> None:
    with MotoServer(tmp_path / "s3") as server, S3Kafka(server, key_prefix="tiered/") as kafka, with_orphans(kafka):
        values = {
            "BOOTSTRAP": kafka.bootstrap_servers,
            "STORAGE": f"s3://{BUCKET}",
            "LAYOUT": "aiven",
            "KEY_PREFIX": "tiered/",
        }
        access = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": server.endpoint,
        }
        said = follow(exports(values), "In a terminal", folder=tmp_path, built=built, **access)
        assert "orphaned user partitions: none" in said
        assert SECRET_KEY not in said


@pytest.mark.rare
def test_the_page_in_airflow_and_with_spark(tmp_path: Path, built: Path) -> None:
    with LocalKafka() as kafka, with_orphans(kafka):
        # No repository of Java's has to be in reach: what the variable is for.
        jars = ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar")))
        # These jars are of one version, and an installer would take a newer PySpark.
        pins = tmp_path / "constraints.txt"
        pins.write_text("".join(f"{name}=={spark_version()}\n" for name in ("pyspark", "pyspark-client")))
        sections, settings = (
            ("In Airflow", "With Spark"),
            {"AIRFLOW_VAR_RLMM_SPARK_JARS": jars, "PIP_CONSTRAINT": str(pins)},
        )
        follow(local_exports(kafka), *sections, folder=tmp_path, built=built, **settings)
        reports = sorted((tmp_path / "airflow-home" / "rlmm").glob("remote_log_cleaner.*/report.json"))
        assert len(reports) == 2
        (plan,) = (tmp_path / "airflow-home" / "rlmm").glob("remote_log_retention.*/summary.json")
        assert plan.stat().st_size
        assert scrub(kafka) == []
