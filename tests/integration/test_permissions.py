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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, RlmmError
from airflow_provider_rlmm.core.log.kafka.broker_time import OFFSETS_TOPIC
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.kafka.producer import BatchProducer
from airflow_provider_rlmm.core.log.protocol import Unknown
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.storage.stamps import STAMP_FOLDER
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC
from dev.roots import expected_root_in_s3
from tests.contracts.s3_server import BUCKET, FolderObjects, S3Server, running_s3_server
from tests.integration.acls import allow_exactly
from tests.integration.kafka_topics import TIMEOUT_S
from tests.integration.lifecycle_runs import Runs, check_health, objects_of, write_event
from tests.integration.permission_jobs import HELD, JOBS, SEGMENTS, context_of, doctor, run, whole_run
from tests.unit.core.records.events import started

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
USER = "principal"
LIVING, ORPHANED = "orders", "gone"
ARCHIVES = "archives"
"""A bucket beside that of the work folder."""

SPARK = "Planning with Spark"
LONG = ("Archiving", "Scrubbing", SPARK)
"""Jobs that take too long to be tried without each right in CI."""
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
    """Return the rows of a section, after those of the section that it says it builds on."""
    before = rights_of("Cleaning") if role == "Archiving" else []
    return before + own_rights_of(role)


def own_rights_of(role: str) -> list[Right]:
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


@dataclass(frozen=True)
class World:
    """
    :param kafka: a broker with an authorizer, a living topic and an orphaned one.
    :param orphan: id of the latter.
    :param storage: serves the broker's storage root.
    :param work: serves the work folder, and archives.
    :param forgotten: objects of a finished segment, by key; empty before the first scrub.
    """

    kafka: AuthorizedKafka
    orphan: UUID
    storage: S3Server
    work: S3Server
    forgotten: dict[str, bytes] = field(default_factory=dict)

    def allow(self, rights: Iterable[Right]) -> None:
        """Let the principal do this and nothing else."""
        kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
        rights = list(rights)
        allow_exactly(self.kafka, USER, {(kinds[r.kind], r.name, AclOperation[r.right]) for r in rights if r.kind})
        for place, server in (("storage_uri", self.storage), ("work_uri", self.work)):
            server.allowed = frozenset(r.right for r in rights if r.name == place)
        self.work.allowed_in_others[ARCHIVES] = frozenset(r.right for r in rights if r.name == "archive_uri")
        shutil.rmtree(self.kafka.remote_dir / STAMP_FOLDER, ignore_errors=True)
        self.work.objects.clear()
        self.work.others.clear()

    def forget_a_segment(self) -> None:
        """Have objects of a segment lie in storage that the log calls finished."""
        if not self.forgotten:
            self.allow(rights_of("Cleaning"))
            there = dict(self.storage.objects)
            run()
            self.forgotten.update({key: data for key, data in there.items() if key not in self.storage.objects})
        self.storage.objects.update(self.forgotten)


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
            "archive_uri": f"s3://{ARCHIVES}/kept",
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
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
        monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", "[]")
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", f"s3://{BUCKET}/rlmm")
        for name, value in world.work.options.items():
            monkeypatch.setenv(name.upper(), value)

    return connect


# -- the tests -----------------------------------------------------------------------------------------------------------


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
def role(
    request: pytest.FixtureRequest,
    world: World,
    connections: Callable[[bool], None],
) -> Iterator[str]:
    """Connect for a role; there is something to mark for the marker, and something to delete for the scrub."""
    name: str = request.param
    connections(name not in ("Reading", SPARK))
    if name == "Marking":
        write_event(world.kafka, started(1, partition=TopicIdPartition(uuid4(), HELD, 0)))
    if name == "Scrubbing":
        world.forget_a_segment()
    yield name
    for key in world.forgotten:
        world.storage.objects.pop(key, None)


def tried(role: str, *more: object, name: str = "") -> object:
    """Return a case; one that takes long is left to ``make rare``."""
    marks = [pytest.mark.rare] if role in LONG else []
    if role == SPARK:
        # Airflow's Spark hook leaves the pipe from spark-submit open.
        marks.append(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
    return pytest.param(role, *more, id=name or role, marks=marks)


@pytest.mark.parametrize("role", [tried(role) for role in JOBS], indirect=True)
def test_each_job_runs_with_exactly_the_rights_of_its_table(role: str, world: World) -> None:
    world.allow(rights_of(role))
    assert outcomes(role) == {}


@pytest.mark.rare
@pytest.mark.parametrize(
    ("role", "missing"),
    [tried(role, right, name=f"{role}-{right}") for role in JOBS for right in own_rights_of(role)],
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
    counts = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context_of("mark"))
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
