# SPDX-License-Identifier: Apache-2.0
"""
What pictures and browser tests look at: a real broker with orphans, a real Airflow with the cleaner's DAG, a real browser.

It needs Chromium (Debian: ``apt-get install chromium``) and the package ``playwright``, which drives it.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.resources import dags_folder
from airflow_provider_rlmm.settings import artifact_name_of
from dev import DevEnvironmentError, tiering
from dev.airflow import LocalAirflow
from dev.broker import METADATA_TOPIC, LocalKafka
from dev.demo import connections

CLEANER = "remote_log_cleaner"
AT_ONCE = {"dry_run": False, "min_absence_ms": 0, "overrides": ["short_min_absence"], "max_share": 1.0}
SLOWLY = AT_ONCE | {"objects_per_second": 1, "batch_segments": 1}
ASKING = AT_ONCE | {"approve_above_segments": 0}
SIZE: ViewportSize = {"width": 1360, "height": 860}
GONE_SEGMENTS = 5


@dataclass(frozen=True)
class Scene:
    """
    A broker and an Airflow that cleans after it.

    :param kafka: the broker; ``orders`` lives there, ``payments`` and ``clicks`` are deleted and have left their segments.
    :param airflow: with the cleaner's DAG and ``rlmm_default``.
    :param work: the work folder.
    """

    kafka: LocalKafka
    airflow: LocalAirflow
    work: Path

    @property
    def pages(self) -> str:
        """Address of the pages, without a slash at the end."""
        return f"{self.airflow.url}/rlmm"

    @property
    def cluster(self) -> str:
        """Address of the cluster's page."""
        return f"{self.pages}/clusters/{self.kafka.cluster_id}"

    def start(self, conf: dict[str, Any]) -> str:
        """Start a run of the cleaner; return its id."""
        return self.airflow.trigger(CLEANER, conf)

    def run(self, conf: dict[str, Any]) -> tuple[str, str]:
        """Let the cleaner run; return the run's id and how it ended."""
        run_id = self.start(conf)
        return run_id, self.airflow.wait(CLEANER, run_id)

    def page_of(self, run_id: str) -> str:
        """Address of a run's page."""
        return f"{self.pages}/runs/{artifact_name_of(CLEANER, run_id)}"

    def write_foreign_topic(self, name: str) -> uuid.UUID:
        """Write a record as a broker would, about a segment of a topic that no cluster has; return its id."""
        tip = TopicIdPartition(uuid.uuid4(), name, 0)
        now_ms = int(time.time() * 1000)
        segment = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(tip, uuid.uuid4()), 0, 99, now_ms, 0, now_ms, 1_000, None,
            RemoteLogSegmentState.COPY_SEGMENT_STARTED, ((0, 0),),
        )  # fmt: skip
        self._write(metadata_partition_for(tip, self.kafka.metadata_partitions), serialize(segment), None)
        return tip.topic_id

    def write_keyed_record(self) -> None:
        """Write a record of a living topic again, with a key: no broker minds, and nobody can apply it."""
        consumer = Consumer(self.kafka.client_config(group_id="unused"))
        try:
            for partition in range(self.kafka.metadata_partitions):
                end = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, partition), timeout=30)[1]
                if end:
                    consumer.assign([TopicPartition(METADATA_TOPIC, partition, 0)])
                    (message,) = consumer.consume(1, timeout=30)
                    break
        finally:
            consumer.close()
        self._write(partition, message.value(), b"somebody's")

    def _write(self, partition: int, value: bytes | None, key: bytes | None) -> None:
        producer = Producer(self.kafka.client_config())
        producer.produce(METADATA_TOPIC, value, key=key, partition=partition)
        if producer.flush(30):
            raise DevEnvironmentError("the broker took no record within 30 s")


def text_of(topic_id: uuid.UUID) -> str:
    """Return an id in Kafka's text form."""
    return kafka_uuid_str(topic_id)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """
    Start broker and Airflow, and delete two topics while the broker is killed.

    :param folder: for everything that is written; nothing else may lie there.
    """
    with LocalKafka(folder / "kafka") as kafka:
        for topic, partitions in (("orders", 4), ("payments", 4), ("clicks", 2)):
            tiering.create_tiered_topic(kafka, topic, partitions)
            tiering.produce_until_remote(kafka, topic, GONE_SEGMENTS)
        tiering.provoke_scenario_b(kafka, "payments")
        dags, work = folder / "dags", folder / "artifacts"
        dags.mkdir()
        shutil.copy(Path(dags_folder()) / f"{CLEANER}.py", dags)
        env = {"AIRFLOW__RLMM__WORK_URI": str(work), "AIRFLOW__RLMM__PRICE_PER_GB_MONTH": "0.023"}
        with LocalAirflow(folder / "airflow", dags_folder=dags, connections=connections(kafka), env=env) as airflow:
            yield Scene(kafka, airflow, work)


def chromium() -> str | None:
    """Return where Chromium is, ``None`` if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browser() -> Iterator[Browser]:
    """
    Start Chromium.

    :raises DevEnvironmentError: if it is not installed.
    """
    path = chromium()
    if path is None:
        raise DevEnvironmentError("no Chromium is installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def log_in(opened: Browser, airflow: LocalAirflow, user: str = "admin", *, theme: str = "light") -> Page:
    """
    Log in to Airflow's UI as a person does.

    :param opened: the browser.
    :param airflow: the Airflow.
    :param user: ``admin`` or ``viewer``.
    :param theme: what the person has chosen in Airflow: ``light`` or ``dark``.
    :return: the page, on Airflow's home.
    """
    page = opened.new_context(viewport=SIZE).new_page()
    page.goto(airflow.url)
    # Airflow leads to the form by a second load: only what waits for the form meets no page that is about to go.
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", airflow.password_of(user))
    page.evaluate("theme => window.localStorage.setItem('theme', theme)", theme)
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "/auth/" not in url)
    page.wait_for_load_state("networkidle")
    return page
