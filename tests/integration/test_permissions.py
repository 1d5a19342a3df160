# SPDX-License-Identifier: Apache-2.0
"""
``docs/permissions.md`` is true: each job runs with exactly the rights of its table, and without any one of them it says so.

Kafka's rights are those of a real broker's authorizer. The broker's storage is a folder; the jobs reach it, and the work
folder, through an S3 server that decides by IAM actions.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.errors import EventLogAccessError, RlmmError
from airflow_provider_rlmm.event_log.protocol import Unknown
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.kafka.broker_time import OFFSETS_TOPIC
from airflow_provider_rlmm.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.kafka.producer import BatchProducer
from airflow_provider_rlmm.metadata.records import TopicIdPartition
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from airflow_provider_rlmm.operators.metadata import ReadRemoteLogMetadataOperator
from airflow_provider_rlmm.storage.stamps import STAMP_FOLDER
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC
from dev.roots import expected_root_in_s3
from tests.contracts.s3_server import BUCKET, S3Server, running_s3_server
from tests.integration.acls import allow_exactly
from tests.integration.kafka_topics import TIMEOUT_S
from tests.integration.lifecycle_runs import Runs, check_health, objects_of, write_event
from tests.unit.metadata.events import started

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
USER = "principal"
LIVING, ORPHANED, HELD = "orders", "gone", "held"
SEGMENTS = 6
LIMITS = {"min_absence_ms": 0, "overrides": ["short_min_absence"]}
_ROW = re.compile(
    r"\| (?:(?P<kind>topic|group) )?`(?P<name>[^`]+)` \| (?P<right>[\w:]+) "
    r"\| (?P<job>[a-z ]+?)(?P<goes_on> goes on)?: `(?P<said>[^`]+)` \|"
)


@dataclass(frozen=True)
class Right:
    """
    A row of the page.

    :param kind: ``topic``, ``group``, or empty for a place of the object stores.
    :param name: of the resource or the place.
    :param right: Kafka's operation, or the IAM action.
    :param job: which job says that it is missing.
    :param goes_on: whether that job does its work all the same.
    :param said: what it says.
    """

    kind: str
    name: str
    right: str
    job: str
    goes_on: bool
    said: str

    def __str__(self) -> str:
        return f"{self.right} on {self.name}"


def rights_of(role: str) -> list[Right]:
    section = PAGE.partition(f"\n## {role}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| where ")]
    rows = [_ROW.fullmatch(line) for line in lines]
    assert rows
    assert all(rows), f"every row under {role} can be read"
    return [
        Right(row["kind"] or "", row["name"], row["right"], row["job"], bool(row["goes_on"]), row["said"])
        for row in rows
        if row is not None
    ]


class FolderObjects(MutableMapping[str, bytes]):
    """The files below a folder as the objects of a bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, key: str) -> bytes:
        path = self._folder / key
        if not path.is_file():
            raise KeyError(key)
        return path.read_bytes()

    def __setitem__(self, key: str, value: bytes) -> None:
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)

    def __delitem__(self, key: str) -> None:
        (self._folder / key).unlink()

    def __iter__(self) -> Iterator[str]:
        return (str(path.relative_to(self._folder)) for path in self._folder.rglob("*") if path.is_file())

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class World:
    """
    :param kafka: a broker with an authorizer, a living topic and an orphaned one.
    :param orphan: id of the latter.
    :param storage: serves the broker's storage root.
    :param work: serves the work folder.
    """

    kafka: AuthorizedKafka
    orphan: UUID
    storage: S3Server
    work: S3Server

    def allow(self, rights: Iterable[Right]) -> None:
        """Let the principal do this and nothing else."""
        kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
        rights = list(rights)
        allow_exactly(self.kafka, USER, {(kinds[r.kind], r.name, AclOperation[r.right]) for r in rights if r.kind})
        for place, server in (("storage_uri", self.storage), ("work_uri", self.work)):
            server.allowed = frozenset(r.right for r in rights if r.name == place)
        shutil.rmtree(self.kafka.remote_dir / STAMP_FOLDER, ignore_errors=True)
        self.work.objects.clear()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with AuthorizedKafka({USER: "not-secret"}) as kafka:
        for topic, segments in ((LIVING, 2), (ORPHANED, SEGMENTS)):
            tiering.create_tiered_topic(kafka, topic, 1)
            tiering.produce_until_remote(kafka, topic, segments)
        orphan = tiering.provoke_scenario_b(kafka, ORPHANED)
        assert len(Runs(kafka).mark().marked) == 1
        with running_s3_server(FolderObjects(kafka.remote_dir)) as storage, running_s3_server() as work:
            # Runs hold it, so the log must name it.
            write_event(kafka, started(1, partition=TopicIdPartition(uuid4(), HELD, 0)))
            yield World(kafka, orphan, storage, work)


@pytest.fixture
def connections(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Set up the Airflow connections of the principal."""

    def connect(allow_writes: bool) -> None:
        rlmm = {
            "kafka_conn_id": "kafka_prod",
            "storage_uri": f"s3://{BUCKET}",
            "storage_conn_id": "tiered",
            "allow_writes": allow_writes,
            "expected_cluster_id": world.kafka.cluster_id,
            "expected_root": expected_root_in_s3(
                BUCKET, str(world.storage.options["aws_endpoint"]), ["kafka-tiered-storage"]
            ),
        }
        for conn_id, conn_type, extra in (
            ("KAFKA_PROD", "kafka", world.kafka.login(USER)),
            ("TIERED", "generic", world.storage.options),
            ("RLMM_DEFAULT", "rlmm", rlmm),
        ):
            monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps({"conn_type": conn_type, "extra": extra}))
        monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", "[]")
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", f"s3://{BUCKET}/rlmm")
        for name, value in world.work.options.items():
            monkeypatch.setenv(name.upper(), value)

    return connect


# -- the jobs --------------------------------------------------------------------------------------------------------------


class TaskInstance:
    """What a task tells Airflow is not looked at here."""

    def xcom_push(self, key: str, value: Any) -> None:
        """Forget it."""

    def get_ti_count(self, **_: Any) -> int:
        return 0


def context_of(run_id: str) -> Any:
    run = SimpleNamespace(dag_id="dag", run_id=run_id, start_date=datetime.now(UTC))
    return {"ti": TaskInstance(), "dag_run": run, "outlet_events": {}}


def connection_test() -> None:
    good, text = RemoteLogMetadataHook().test_connection()
    if not good:
        raise AirflowFailException(text)


def read() -> None:
    result = ReadRemoteLogMetadataOperator(task_id="read", output_uri=f"s3://{BUCKET}/read").execute(context_of("read"))
    assert result["rows"] > 2 * SEGMENTS


def doctor() -> None:
    result = RemoteLogMetadataDoctorOperator(task_id="doctor").execute(context_of("doctor"))
    assert result["segments"] > 0


def mark() -> None:
    assert MarkDeletedPartitionsOperator(task_id="mark").execute(context_of("mark"))["marked"] > 0


def whole_run(*, dry_run: bool, most: int | None) -> dict[str, Any]:
    """All tasks of the DAG ``remote_log_cleaner``, one after the other."""
    context, common = context_of("run"), {"limits": LIMITS, "dry_run_only": dry_run}
    planning = {
        "blast_radius": {"max_share": 1.0},
        "max_segments_this_run": most,
        "hold": [HELD],
    }
    CheckRemoteLogCleanupOperator(task_id="check", **common, **planning).execute(context)
    MarkDeletedPartitionsOperator(task_id="mark", hold=[HELD], **common).execute(context)
    partitions = PlanRemoteLogCleanupOperator(task_id="plan", **common, **planning).execute(context)
    for partition in partitions:
        CleanMetadataPartitionOperator(task_id="clean", metadata_partition=partition, hold=[HELD], **common).execute(
            context
        )
    return ReportRemoteLogCleanupOperator(task_id="report", dry_run_only=dry_run).execute(context)


def dry_run() -> None:
    assert whole_run(dry_run=True, most=None)["would_delete_segments"] > 0


def run() -> None:
    assert whole_run(dry_run=False, most=1)["segments_deleted"] == 1


JOBS: Mapping[str, Mapping[str, Callable[[], None]]] = {
    "Reading": {"connection test": connection_test, "read": read, "doctor": doctor, "dry run": dry_run},
    "Marking": {"mark": mark},
    "Cleaning": {"connection test": connection_test, "run": run},
}


def outcomes(role: str) -> dict[str, str]:
    """Do the jobs of a role; return what those said that refused. Anything but a typed refusal is an error of the test."""
    said = {}
    for name, job in JOBS[role].items():
        try:
            job()
        except (RlmmError, AirflowFailException, OSError) as refusal:
            said[name] = str(refusal)
    return said


@pytest.fixture
def role(request: pytest.FixtureRequest, world: World, connections: Callable[[bool], None]) -> str:
    """Connect for a role; for the marker there is something to mark."""
    name: str = request.param
    connections(name != "Reading")
    if name == "Marking":
        write_event(world.kafka, started(1, partition=TopicIdPartition(uuid4(), HELD, 0)))
    return name


@pytest.mark.parametrize("role", JOBS, indirect=True)
def test_each_job_runs_with_exactly_the_rights_of_its_table(role: str, world: World) -> None:
    world.allow(rights_of(role))
    assert outcomes(role) == {}


@pytest.mark.parametrize(
    ("role", "missing"),
    [pytest.param(role, right, id=f"{role}-{right}") for role in JOBS for right in rights_of(role)],
    indirect=["role"],
)
def test_without_any_one_right_the_job_says_which(
    role: str, missing: Right, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    world.allow(right for right in rights_of(role) if right != missing)
    refusals = outcomes(role)
    if missing.goes_on:
        assert refusals == {}
        assert missing.said in caplog.text
    else:
        assert missing.said in refusals.get(missing.job, "")


@pytest.mark.parametrize("role", ["Marking"], indirect=True)
def test_a_marker_that_may_describe_no_living_topic_names_the_right(
    role: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock needs ``__consumer_offsets`` only; what the right on every topic is for is told apart here."""
    caplog.set_level(logging.WARNING)
    few = [replace(right, name=OFFSETS_TOPIC) if right.name == "*" else right for right in rights_of(role)]
    world.allow(few)
    counts = MarkDeletedPartitionsOperator(task_id="mark").execute(context_of("mark"))
    assert (counts["marked"], counts["refused"] > 0) == (0, True)
    document = json.loads(world.work.objects["rlmm/dag.mark/mark.json"])
    why = {refusal["topic"]: refusal["why"] for refusal in document["refusals"]}
    assert "DESCRIBE on every topic" in why[LIVING]


@pytest.mark.parametrize("role", ["Reading"], indirect=True)
def test_a_doctor_that_may_describe_every_configuration_knows_which_topics_are_tiered(
    role: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = "which topics are tiered is not known"
    world.allow(rights_of(role))
    doctor()
    assert unknown in caplog.text
    caplog.clear()
    every = Right("topic", "*", "DESCRIBE_CONFIGS", "doctor", True, unknown)
    world.allow([*rights_of(role), every])
    doctor()
    assert unknown not in caplog.text


def test_a_principal_that_may_not_write_gets_a_typed_error_and_writes_nothing(world: World) -> None:
    """librdkafka ends a producer that may not write, and its Python binding raises from wherever it is at that moment."""
    world.allow([right for right in rights_of("Reading") if right.kind])
    config = KafkaClientConfig(world.kafka.login(USER))
    with KafkaMetadataEventLog(config) as log:
        before = log.high_water_marks()
        with pytest.raises(
            EventLogAccessError, match="WRITE is missing from the ACLs of this principal, nothing was written"
        ):
            log.publish([(0, b"never written")])
        # As if the right were taken away between that look and the write.
        for _ in range(4):
            producer = BatchProducer(config, METADATA_TOPIC, TIMEOUT_S, require_cluster=lambda *_: None)
            outcomes = producer.publish([(0, b"never written"), (1, b"nor this")])
            assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]
        assert log.high_water_marks() == before


@pytest.mark.parametrize("role", ["Cleaning"], indirect=True)
def test_the_cleaner_of_the_page_finishes_and_storage_and_metadata_agree(role: str, world: World) -> None:
    world.allow(rights_of(role))
    assert objects_of(world.kafka, world.orphan)
    assert whole_run(dry_run=False, most=None)["partitions_finished"] == 1
    assert objects_of(world.kafka, world.orphan) == set()
    check_health(world.kafka, [LIVING])
