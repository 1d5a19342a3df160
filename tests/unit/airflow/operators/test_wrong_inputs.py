# SPDX-License-Identifier: Apache-2.0
"""
Wrong input, whoever wrote it: the error names the field, the value (never a secret's) and what to do, as early as it can.

Each row says when: ``PARSE``, when the DAG file is parsed; ``RUN``, when a task reads what only then exists, before it asks a
cluster or a store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.definitions._internal.templater import LiteralValue
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.plans.plan_files import read_plan, write_document
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.arguments import readers_of
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from airflow_provider_rlmm.operators.failing import acknowledgements, judged, refuse_unknown_params
from airflow_provider_rlmm.operators.metadata import PublishRemoteLogMetadataOperator, ReadRemoteLogMetadataOperator
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from airflow_provider_rlmm.operators.scrub import (
    DeleteScrubbedObjectsOperator,
    PlanRemoteStorageScrubOperator,
    RemoteStorageScrubOperator,
)
from airflow_provider_rlmm.settings import artifact_uri, plan_uri
from tests.unit.airflow.checked import checked_operators

PARSE, RUN = "when the DAG file is parsed", "when the task runs"
SECRET = "hunter2-hunter2"
EVENT = {"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "topic": "gone", "partition": 0, "state": "DELETE_PARTITION_MARKED"}
CLUSTER = {"bootstrap.servers": "127.0.0.1:9092"}


@dataclass(frozen=True)
class Wrong:
    name: str
    when: str
    said: tuple[str, ...]  # parts of the message: the field, the value, what to do
    declare: Callable[[], Any] = lambda: None  # what the DAG file does
    call: Callable[[Any], object] = lambda task: None  # what the task does
    environment: Mapping[str, Any] = field(default_factory=dict)


# -- operators ---------------------------------------------------------------------------------------------------------


def parse(operator: type[BaseOperator], *said: str, **arguments: Any) -> Wrong:
    """The argument stands in the DAG file."""
    (name, value), *_ = reversed(arguments.items())
    return Wrong(
        f"{operator.__name__} {name} {value!r:.80}", PARSE, said, declare=lambda: operator(task_id="a", **arguments)
    )


def run(operator: type[BaseOperator], template: Any, *said: str, **arguments: Any) -> Wrong:
    """A template stands in the DAG file, and this comes of it."""
    (name, value), *_ = reversed(arguments.items())

    def execute(task: Any) -> None:
        setattr(task, name, value)
        task.execute({"dag_run": SimpleNamespace(dag_id="dag", run_id="run")})

    return Wrong(
        f"{operator.__name__} rendered {name} {value!r:.80}",
        RUN,
        said,
        declare=lambda: operator(task_id="a", **{**arguments, name: template}),
        call=execute,
    )


CHECK, MARK, PLAN = CheckRemoteLogCleanupOperator, MarkDeletedPartitionsOperator, PlanRemoteLogCleanupOperator
CLEAN, DOCTOR, READ = CleanMetadataPartitionOperator, RemoteLogMetadataDoctorOperator, ReadRemoteLogMetadataOperator
PUBLISH, SCRUB = PublishRemoteLogMetadataOperator, RemoteStorageScrubOperator
JINJA = "{{ params.x }}"

OPERATORS = [
    parse(CHECK, "unknown limits ['min_absense_ms']", "known are", "min_absence_ms", limits={"min_absense_ms": 1}),
    parse(CHECK, "min_absence_ms 1 is below 24 h", "'short_min_absence'", limits={"min_absence_ms": 1}),
    parse(CHECK, "unknown overrides ['all']", "known are", limits={"overrides": ["all"]}),
    parse(CHECK, "unknown overrides ['all']", "known", limits={"overrides": ["all"], "min_absence_ms": JINJA}),
    parse(CHECK, "batch_segments must be an integer", "0", limits={"batch_segments": 0, "overrides": [JINJA]}),
    parse(CHECK, "unknown allowed_quarantine ['GOOD']", "known are", limits={"allowed_quarantine": ["GOOD"]}),
    parse(CHECK, "deletion_window must be two times", "'nightly'", "22:00", limits={"deletion_window": "nightly"}),
    parse(CHECK, "max_share must be a number from 0 to 1, not 2", blast_radius={"max_share": 2}),
    parse(CHECK, "hold must be a list", "'prod-*'", hold="prod-*"),
    parse(CHECK, "hold entry 'a b' is no topic name", hold=["a b", JINJA]),
    parse(MARK, "rlmm_conn_id must be a text of 1 to", "''", rlmm_conn_id=""),
    parse(MARK, "rlmm_conn_id must be a text", "5", rlmm_conn_id=5),
    parse(MARK, "source_plan must be a text", "5", source_plan=5),
    parse(MARK, "dry_run_only must be true or false", "'no'", dry_run_only="no"),
    parse(PLAN, "expires_in_ms must be an integer from 1 to", "0", expires_in_ms=0),
    parse(PLAN, "expires_in_ms must be an integer", "'{{ params.x }}'", expires_in_ms=JINJA),
    parse(PLAN, "max_segments_this_run must be an integer from 1", "0", max_segments_this_run=0),
    parse(CLEAN, "metadata_partition must be an integer from 0", "-1", metadata_partition=-1),
    parse(ReportRemoteLogCleanupOperator, "rlmm_conn_id must be a text", "5", rlmm_conn_id=5),
    parse(DOCTOR, "max_copy_ms must be an integer", "'soon'", max_copy_ms="soon"),
    parse(DOCTOR, "limit_per_kind must be an integer from 0 to 100000", "100001", limit_per_kind=100_001),
    parse(READ, "start_offsets names a metadata partition twice", output_uri="/x", start_offsets={0: 1, "0": 2}),
    parse(
        READ, "end_offsets: the offset of metadata partition 3", "-5", output_uri="/x", end_offsets={3: -5, 4: JINJA}
    ),
    parse(READ, "output_uri: 'ftp://host/x' is no URI", "s3://", output_uri="ftp://host/x"),
    parse(READ, "output_uri must be an absolute path or a URI", "'records'", output_uri="records"),
    parse(READ, "output_uri must hold neither credentials", "environment", output_uri=f"s3://key:{SECRET}@bucket/x"),
    parse(PUBLISH, "events must be a list", "mappings with texts for keys", events={"topic": "gone"}),
    parse(PUBLISH, "events must be a list", "'gone'", events=["gone", JINJA]),
    parse(PUBLISH, "it lacks ['state']", "'gone'", events=[{k: v for k, v in EVENT.items() if k != "state"}]),
    parse(PUBLISH, "state must be one of DELETE_PARTITION_MARKED", "'MARKED'", events=[EVENT | {"state": "MARKED"}]),
    parse(SegmentRetentionOperator, "min_age_ms must be a duration from 24 h", "1000", min_age_ms=1000),
    parse(SegmentRetentionOperator, "conn_id must be a text", "''", conn_id=""),
    parse(SCRUB, "price_per_gb_month must be a number from 0 to", "'abc'", price_per_gb_month="abc"),
    parse(SCRUB, "overrides must be a list", "'move_stamp'", overrides="move_stamp"),
    parse(PlanRemoteStorageScrubOperator, "min_unreferenced_ms 1 is below 24 h", limits={"min_unreferenced_ms": 1}),
    parse(DeleteScrubbedObjectsOperator, "unknown limits ['max_missing_segments']", limits={"max_missing_segments": 1}),
    run(CHECK, JINJA, "hold must be a list", "'prod-*'", hold="prod-*"),
    run(CHECK, {"min_absence_ms": JINJA}, "min_absence_ms 1 is below 24 h", limits={"min_absence_ms": 1}),
    run(
        MARK,
        JINJA,
        "neither the name of a plan",
        "'s3://other/x'",
        "allowed_plan_roots",
        dry_run_only=True,
        source_plan="s3://other/x",
    ),
    run(PUBLISH, [JINJA], "state must be one of", "'MARKED'", events=[EVENT | {"state": "MARKED"}]),
    run(DOCTOR, LiteralValue("soon"), "max_copy_ms must be an integer", "'soon'", max_copy_ms="soon"),
]


# -- connections -------------------------------------------------------------------------------------------------------


def connection(what: str, *said: str, call: Callable[[], object], **documents: Any) -> Wrong:
    environment = {f"AIRFLOW_CONN_{name.upper()}": document for name, document in documents.items()}
    return Wrong(what, RUN, said, call=lambda _: call(), environment=environment)


def rlmm(what: str, *said: str, document: Any = None, **extra: Any) -> Wrong:
    given = {"conn_type": "rlmm", "extra": extra} if document is None else document
    return connection(what, *said, call=lambda: RemoteLogMetadataHook().get_connection_settings(), rlmm_default=given)


def kafka(what: str, *said: str, document: Any = None, **extra: Any) -> Wrong:
    """Property names have underscores here for dots."""
    named = {name.replace("_", "."): value for name, value in extra.items()}
    given = {"conn_type": "kafka", "extra": {**CLUSTER, **named}} if document is None else document
    return connection(
        f"kafka: {what}",
        "connection 'kafka_default'",
        *said,
        call=lambda: RemoteLogMetadataHook().read_client_config(),
        kafka_default=given,
    )


def storage(what: str, *said: str, document: Any = None, **extra: Any) -> Wrong:
    store = {} if document is None else {"store": document}
    return connection(
        f"storage: {what}",
        *said,
        call=lambda: RemoteLogMetadataHook().get_storage().get_storage_manager(),
        rlmm_default={
            "conn_type": "rlmm",
            "extra": {"storage_uri": "s3://bucket/x", "storage_conn_id": "store"} | extra,
        },
        **store,
    )


OF_RLMM = ("connection 'rlmm_default'",)
CONNECTIONS = [
    rlmm("is missing", *OF_RLMM, "does not exist: create it with type Kafka Remote Log Metadata", document=""),
    rlmm("has another type", *OF_RLMM, "its type is 'kafka', not 'rlmm'", document={"conn_type": "kafka"}),
    rlmm("is no JSON", *OF_RLMM, "extra is not a JSON object", document={"conn_type": "rlmm", "extra": "{"}),
    rlmm(
        "has a host and a login",
        *OF_RLMM,
        "host, login, password mean nothing",
        "clear them",
        "kafka_conn_id",
        document={"conn_type": "rlmm", "host": "broker", "login": "me", "password": SECRET},
    ),
    rlmm("has an unknown field", *OF_RLMM, "['allow_write']", "known are", allow_write=True),
    rlmm("allows writes perhaps", *OF_RLMM, "allow_writes must be true or false", "'maybe'", allow_writes="maybe"),
    rlmm("names a topic that cannot be", *OF_RLMM, "metadata_topic must be a name", "'a b'", metadata_topic="a b"),
    rlmm("holds what cannot be a topic", *OF_RLMM, "hold entry 'a/b' is no topic name", hold="orders, a/b"),
    rlmm(
        "has a root without a scheme", *OF_RLMM, "storage_uri must be a URI", "'/mnt'", "file:///", storage_uri="/mnt"
    ),
    rlmm(
        "has a secret in its URI",
        *OF_RLMM,
        "storage_uri must hold",
        "storage_conn_id",
        storage_uri=f"s3://a:{SECRET}@b",
    ),
    rlmm(
        "has an unknown layout",
        *OF_RLMM,
        "unknown storage layout 'aivn'",
        "choose one of: aiven",
        layout="aivn",
        storage_uri="s3://bucket",
    ),
    rlmm(
        "has a prefix without a use",
        *OF_RLMM,
        "local-tiered-storage takes no key prefix",
        key_prefix="x/",
        storage_uri="s3://bucket",
    ),
    rlmm("expects a root that cannot be", *OF_RLMM, "expected_root must be a root id", "'mine'", expected_root="mine"),
    rlmm("names a number", *OF_RLMM, "kafka_conn_id must be text, not 5", kafka_conn_id=5),
    connection(
        "kafka: is missing",
        *OF_RLMM,
        "kafka_conn_id names 'nowhere', which does not exist",
        call=lambda: RemoteLogMetadataHook().read_client_config(),
        rlmm_default={"conn_type": "rlmm", "extra": {"kafka_conn_id": "nowhere"}},
    ),
    kafka("no JSON", "extra is not a JSON object", document={"conn_type": "kafka", "extra": "{"}),
    kafka("a list", "extra is not a JSON object", document={"conn_type": "kafka", "extra": '["a:9092"]'}),
    kafka(
        "host and port",
        "bootstrap.servers in extra",
        "host:port",
        document={"conn_type": "kafka", "host": "b", "port": 9092},
    ),
    kafka("a list of brokers", "bootstrap.servers in extra must be a text", "host:port", bootstrap_servers=["a:9092"]),
    kafka("a number as broker", "bootstrap.servers in extra must be a text", "host:port", bootstrap_servers=9092),
    kafka(
        "a port that is none",
        "bootstrap.servers must be",
        "address 2 of 2",
        "1 to 65535",
        bootstrap_servers="a:1,b:99999",
    ),
    kafka("a login in an address", "bootstrap.servers must hold no login", bootstrap_servers=f"me:{SECRET}@b:9092"),
    kafka("acks", "acks must be 'all'", "remove it", acks="1"),
    kafka("a login without protocol", "sasl.password without security.protocol", "SASL_SSL", sasl_password=SECRET),
    kafka("a password of no kind", "sasl.password must be a string", sasl_password={"a": SECRET}),
    kafka(
        "a certificate that is not there",
        "ssl.ca.location names '/nowhere.pem'",
        "must lie on every worker",
        security_protocol="SSL",
        ssl_ca_location="/nowhere.pem",
    ),
    kafka("a property that cannot be set", "transactional.id cannot be set", transactional_id="x"),
    storage("is missing", *OF_RLMM, "storage_conn_id names 'store', which does not exist"),
    storage(
        "another cloud's",
        "connection 'store'",
        "its type 'aws' opens s3://",
        "and not gs://",
        document={"conn_type": "aws", "login": "key", "password": SECRET},
        storage_uri="gs://bucket/x",
    ),
    storage(
        "an option that nobody knows",
        "s3://bucket/x",
        "aws_regoin",
        document={"conn_type": "generic", "extra": {"aws_regoin": "x", "secret_access_key": SECRET}},
    ),
    storage(
        "an option of no kind",
        "connection 'store'",
        "region in extra must be text",
        document={"conn_type": "generic", "extra": {"region": ["x"]}},
    ),
    storage(
        "a login for a folder",
        "connection 'store'",
        "login and password mean nothing to a file:// store",
        document={"conn_type": "generic", "login": "me", "password": SECRET},
        storage_uri="file:///tmp",
    ),
    storage(
        "obstore's endpoint at aws",
        "connection 'store'",
        "endpoint in extra",
        "endpoint_url",
        document={"conn_type": "aws", "login": "key", "password": SECRET, "extra": {"endpoint": "http://x:9000"}},
    ),
    storage("a scheme that nobody knows", "ftp://host/x", storage_uri="ftp://host/x", storage_conn_id=None),
]


# -- settings of Airflow and of a run ----------------------------------------------------------------------------------


def setting(what: str, *said: str, call: Callable[[], object] | None = None, **settings: str) -> Wrong:
    def write() -> object:
        return write_document(artifact_uri("plan"), "check.json", "{}")

    environment = {f"AIRFLOW__RLMM__{name.upper()}": value for name, value in settings.items()}
    return Wrong(what, RUN, said, call=lambda _: (call or write)(), environment=environment)


def configuration(conf: Any, *said: str) -> Wrong:
    context: Any = {"dag": SimpleNamespace(params={"dry_run": True}), "dag_run": SimpleNamespace(conf=conf)}
    return Wrong(f"run with {conf!r}", RUN, said, call=lambda _: refuse_unknown_params(context))


SETTINGS = [
    setting("work_uri is relative", "[rlmm] work_uri must be an absolute path", "'plans'", work_uri="plans"),
    setting("work_uri of a scheme that nobody knows", "[rlmm] work_uri: 'ftp://host/x'", "s3://", work_uri="ftp://host/x"),
    setting("work_uri without a bucket", "[rlmm] work_uri: 's3://'", "give a path", work_uri="s3://"),
    setting("work_uri with a secret", "[rlmm] work_uri must hold neither", "work_conn_id", work_uri=f"s3://a:{SECRET}@b"),
    setting(
        "work_conn_id is missing", "[rlmm] work_conn_id names 'nowhere', which does not exist",
        work_uri="s3://bucket/x", work_conn_id="nowhere",
    ),
    setting(
        "allowed_plan_roots is relative", "[rlmm] allowed_plan_roots must be an absolute path", "'plans'",
        call=lambda: plan_uri("s3://other/x"), allowed_plan_roots="/a, plans",
    ),
    setting(
        "allowed_plan_roots of another scheme", "[rlmm] allowed_plan_roots: 'ftp://host'",
        call=lambda: plan_uri("s3://other/x"), allowed_plan_roots="ftp://host",
    ),
    setting("a plan that is not there", "summary.json", "make a new plan", call=lambda: read_plan(artifact_uri("none"))),
    configuration({"dry_rum": True}, "unknown parameters ['dry_rum']", "this DAG has ['dry_run']"),
    configuration(["dry_run"], "the configuration of the run must be a mapping", "['dry_run']"),
]  # fmt: skip


# -- what is said, and when --------------------------------------------------------------------------------------------

TABLE = [*OPERATORS, *CONNECTIONS, *SETTINGS]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Mapping[str, Any]], None]:
    """Good connections and settings, but for those that a row gives; no cluster can be asked."""

    def touched(*_: Any) -> None:
        raise AssertionError("the cluster was asked")

    def say(given: Mapping[str, Any]) -> None:
        good = {
            "AIRFLOW_CONN_RLMM_DEFAULT": {"conn_type": "rlmm"},
            "AIRFLOW_CONN_KAFKA_DEFAULT": {"conn_type": "kafka", "extra": CLUSTER},
            "AIRFLOW__RLMM__WORK_URI": str(tmp_path),
        }
        for name, value in {**good, **given}.items():
            monkeypatch.setenv(name, value if isinstance(value, str) else json.dumps(value))

    monkeypatch.setattr(RemoteLogMetadataHook, "get_cluster", touched)
    return say


@pytest.mark.parametrize("wrong", TABLE, ids=lambda wrong: wrong.name)
def test_it_fails_in_words(wrong: Wrong, environment: Callable[[Mapping[str, Any]], None]) -> None:
    environment(wrong.environment)
    task = None if wrong.when is PARSE else wrong.declare()
    with pytest.raises(RlmmError) as caught:
        wrong.declare() if wrong.when is PARSE else wrong.call(task)
    message = str(caught.value)
    assert [part for part in wrong.said if part not in message] == [], message
    assert SECRET not in message
    assert "\n" not in message


def test_there_are_enough_kinds_of_wrong_input() -> None:
    assert len({wrong.name for wrong in TABLE}) == len(TABLE) >= 32


# -- the variable rlmm_acknowledgements: it fails a run at its end, in words ---------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "nothing in it counts"),
        ("{}", "nothing in it counts: it is no list"),
        ("[5]", "entry 1 of Airflow variable rlmm_acknowledgements: it is no JSON object"),
        ('[{"kind": "X", "who": "me"}]', "unknown fields ['who']; known are"),
        ('[{"kind": "X"}]', "fields ['by', 'cluster_id', 'until', 'why'] are missing"),
        (
            '[{"cluster_id": "c", "kind": "X", "what": "w", "by": "me", "why": "y", "until": "soon"}]',
            "until must be a time such as 20",
        ),
    ],
)
def test_acknowledgements_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", text)
    (problem,) = acknowledgements(int(datetime.now(UTC).timestamp() * 1000)).problems
    headline = judged(SimpleNamespace(error=print, warning=print), [], "c").headline()
    assert said in str(problem)
    assert "rlmm_acknowledgements" in headline
    assert "correct it or take it out" in headline


# -- what only exists when the task runs is taken when the file is parsed --------------------------------------------------

REQUIRED: dict[type[BaseOperator], dict[str, Any]] = {
    CLEAN: {"metadata_partition": 0}, READ: {"output_uri": "/x"}, PUBLISH: {"events": []},
}  # fmt: skip
CHECKED = list(checked_operators())


def later() -> Iterator[Any]:
    yield from ("{{ params.x }}", "{% if x %}a{% endif %}", "{# nothing #}5", LiteralValue(5))
    yield lambda context, jinja_env: 5


@pytest.mark.parametrize("operator", CHECKED, ids=lambda operator: operator.__name__)
def test_what_airflow_fills_in_later_is_taken(operator: type[CheckedOperator[Any]]) -> None:
    with DAG("dag"):
        before = EmptyOperator(task_id="before")
        for number, value in enumerate([*later(), before.output]):
            given = dict.fromkeys(set(readers_of(operator.arguments)) & set(operator.template_fields), value)
            task: Any = operator(task_id=f"task-{number}", **{**REQUIRED.get(operator, {}), **given})
            assert all(getattr(task, name) is value for name in given)
    assert task.upstream_task_ids == {"before"}


def test_what_is_within_a_list_or_a_mapping_may_come_later() -> None:
    CHECK(task_id="a", hold=[JINJA, "legal-*"], limits={"overrides": [JINJA], "min_absence_ms": 1})
    READ(task_id="a", output_uri="/x", start_offsets={"0": JINJA, "1": "5"})
    PUBLISH(task_id="a", events=[{**EVENT, "partition": JINJA, "state": "{{ params.state }}"}, EVENT])


# -- mapped operators --------------------------------------------------------------------------------------------------


def test_a_mapped_operator_is_checked_where_its_arguments_stand() -> None:
    with DAG("dag") as dag:
        plan = PLAN(task_id="plan", limits={"min_absence_ms": JINJA})
        clean = CLEAN.partial(
            task_id="clean", dry_run_only=True, limits={"batch_segments": JINJA}, hold=JINJA, retries=2
        )
        mapped = clean.expand(metadata_partition=plan.output)
        with pytest.raises(RlmmError, match="unknown limits"):
            CLEAN.partial(task_id="wrong", limits={"batch": 1})
        literal = CLEAN.partial(task_id="literal", dry_run_only=JINJA).expand(metadata_partition=[0, -1])
        kwargs = MARK.partial(task_id="kwargs").expand_kwargs([{"source_plan": "a"}, {"dry_run_only": "no"}])
    assert mapped.unmap({"metadata_partition": 3}).metadata_partition == 3
    assert literal.unmap({"metadata_partition": 0}).metadata_partition == 0
    with pytest.raises(RlmmError, match="metadata_partition must be an integer from 0"):
        literal.unmap({"metadata_partition": -1})
    with pytest.raises(RlmmError, match="dry_run_only must be true or false"):
        kwargs.unmap({"dry_run_only": "no"})
    known = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    assert sorted(known.task_ids) == ["clean", "kwargs", "literal", "plan"]


def test_default_arguments_of_a_dag_are_checked() -> None:
    with DAG("dag", default_args={"rlmm_conn_id": ""}), pytest.raises(RlmmError, match="rlmm_conn_id must be a text"):
        MARK(task_id="mark")
