# SPDX-License-Identifier: Apache-2.0
"""What operators take and what they refuse: the field, the value, what is allowed, before anything is touched."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators import arguments
from airflow_provider_rlmm.operators.approval import (
    ApproveRemoteLogCleanupOperator,
    ApproveRemoteStorageScrubOperator,
)
from airflow_provider_rlmm.operators.archive import (
    ArchivePlannedSegmentsOperator,
    ArchiveRemoteLogOperator,
    RestoreRemoteLogOperator,
)
from airflow_provider_rlmm.operators.arguments import artifact_name, blast_radius, cleaner_limits, flag
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.connection_check import RemoteLogCheckOperator
from airflow_provider_rlmm.operators.contents import VerifyRemoteSegmentsOperator
from airflow_provider_rlmm.operators.copying import CopyLogSegmentsOperator
from airflow_provider_rlmm.operators.dead_man import RemoteLogDeadManOperator
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from airflow_provider_rlmm.operators.leader_retention import LeaderRetentionOperator
from airflow_provider_rlmm.operators.metadata import PublishRemoteLogMetadataOperator, ReadRemoteLogMetadataOperator
from airflow_provider_rlmm.operators.recovery import RecoverRemoteLogOperator
from airflow_provider_rlmm.operators.remote_log import RemoteLogReadOperator
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator, SegmentRetentionOperator
from airflow_provider_rlmm.operators.scrub import (
    DeleteScrubbedObjectsOperator,
    PlanRemoteStorageScrubOperator,
    RemoteStorageScrubOperator,
    ReportRemoteStorageScrubOperator,
)
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from airflow_provider_rlmm.sensors.remote_log_copied import RemoteLogCopiedSensor
from airflow_provider_rlmm.sensors.remote_log_gone import RemoteLogGoneSensor
from tests.unit.airflow.checked import checked_operators

HUGE = 10**400
NAN, INF = float("nan"), float("inf")

# --- every argument of every operator ---------------------------------------------------------------------------------

TEXTS: list[Any] = [5, True, ["a"], {"a": 1}, "x" * 10_000, "two\nlines", "\u202eturned", b"bytes"]
FLAGS: list[Any] = [None, "", "yes", "Flase", 0, 1, 1.0, [], ["true"]]
SAID = [value for value in FLAGS if value is not None]
"""Of a task that writes nothing: what it is not told, the run says."""
INTEGERS: list[Any] = [
    1.0,
    1.5,
    "1.5",
    "1e3",
    "1_000",
    "",
    "many",
    "\u0661",
    True,
    [],
    {},
    [1],
    -1,
    "-1",
    HUGE,
    NAN,
    INF,
]
MAPPINGS: list[Any] = [5, True, "a=1", ["a"], {"unknown": 1}, {5: 1}]

LIMITS: list[Any] = [
    *MAPPINGS,
    *({name: wrong} for name in ("min_absence_ms", "batch_segments", "max_missing_segments") for wrong in INTEGERS),
    *({"batch_segments": wrong} for wrong in (0, 10_001, "10001")),
    *({name: wrong} for name in ("allowed_quarantine", "overrides") for wrong in ("KEYED", [1], [None], 5, {}, ["X"])),
    {"allowed_quarantine": ["GOOD"]},
    {"overrides": ["x"] * 1_001},
    {"min_absence_ms": 1},
    *({"objects_per_second": wrong} for wrong in (*(i for i in INTEGERS if i != ""), 0)),
    *({"max_minutes": wrong} for wrong in (*(i for i in INTEGERS if i != ""), 0)),
    *({"deletion_window": wrong} for wrong in (5, True, [], "always", "22:00-06:00", "22:00-06:00 Nowhere")),
]
SCRUB_LIMITS: list[Any] = [
    *MAPPINGS,
    *({name: wrong} for name in ("min_unreferenced_ms", "batch_segments") for wrong in INTEGERS),
    *({"batch_segments": wrong} for wrong in (0, 10_001)),
    {"overrides": ["X"]},
    {"min_unreferenced_ms": 86_399_999},
]
BLAST_RADIUS: list[Any] = [
    *MAPPINGS,
    *({name: wrong} for name in ("max_segments", "max_bytes") for wrong in INTEGERS),
    *(
        {"max_share": wrong}
        for wrong in (-0.1, 1.1, "1.1", "-0", "half", "nan", "inf", NAN, INF, True, [], HUGE, "1_0")
    ),
]
APPROVAL_LIMITS: list[Any] = [
    *MAPPINGS,
    *({name: wrong} for name in ("approve_above_segments", "approve_above_bytes") for wrong in INTEGERS),
]
OFFSETS: list[Any] = [
    *(m for m in MAPPINGS if m != {5: 1}),
    *({0: wrong} for wrong in (*INTEGERS, None)),
    *({wrong: 0} for wrong in (-1, "-1", 1.5, True, "../0", 2**31, None)),
    {0: 1, "0": 2},
]
TOPIC_IDS = [7, "orders", "AAAAAAAAAAAAAAAAAAAAAA", [], True]
LOSSES = ["3@24", ["3"], ["3@"], ["03@4"], ["3@24 "], [None], [3], 5, {}]
HOLDS: list[Any] = [
    5,
    0,
    True,
    False,
    "legal-*",
    {},
    {"legal": 1},
    ["a b"],
    [" "],
    [5],
    [None],
    ["x" * 250],
    ["\u00e9"],
]
ONLY: list[Any] = [*HOLDS, None, "", [], [""]]
PARTITIONS: list[Any] = [-1, 0, "0", {}, [-1], ["x"], [1.5], [True], [2**31]]
MOMENTS: list[Any] = ["now", "2026-03-01T00:00:00", "1969-12-31T00:00:00Z", 1.5, True, [], -1, HUGE]
CANARIES: list[Any] = [*(i for i in INTEGERS if i != ""), 0]
EVENTS: list[Any] = [None, 5, "event", {"topic": "a"}, ["event"], [{1: 2}], [[]], [{}] * 10_001, [{"topic": 5}]]

OPERATORS: list[tuple[Callable[..., BaseOperator], dict[str, Any], dict[str, list[Any]]]] = [
    (
        ApproveRemoteLogCleanupOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "approve_above": APPROVAL_LIMITS,
            "answer_within": [*INTEGERS, 999, "soon", "1 y", "h", "1.5 h", "-1 h", "1h2h"],
            "dry_run_only": SAID,
        },
    ),
    (
        ApproveRemoteStorageScrubOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "approve_above": APPROVAL_LIMITS,
            "answer_within": [*INTEGERS, 999, "soon", "1 y", "h", "1.5 h", "-1 h", "1h2h"],
            "dry_run_only": [*SAID, "as checked"],
        },
    ),
    (
        MarkDeletedPartitionsOperator,
        {"dry_run_only": False},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "source_plan": [*TEXTS, 0, False, [], {}],
            "limits": LIMITS,
            "hold": HOLDS,
            "only": ONLY,
            "dry_run_only": FLAGS,
            "confirm_lost_records": LOSSES,
            "confirm_metadata_topic_id": TOPIC_IDS,
        },
    ),
    (PublishRetentionPlanOperator, {}, {"rlmm_conn_id": [None, "", *TEXTS]}),
    (ReportRemoteStorageScrubOperator, {}, {"rlmm_conn_id": [None, "", *TEXTS]}),
    (
        SurveyRemoteLogOperator,
        {},
        {"rlmm_conn_id": [None, "", *TEXTS], "limits": LIMITS, "hold": HOLDS, "only": ONLY, "dry_run_only": SAID},
    ),
    (
        CheckRemoteLogCleanupOperator,
        {},
        {
            "confirm_lost_records": LOSSES,
            "confirm_metadata_topic_id": TOPIC_IDS,
            "rlmm_conn_id": [None, "", *TEXTS],
            "limits": LIMITS,
            "blast_radius": BLAST_RADIUS,
            "hold": HOLDS,
            "only": ONLY,
            "max_segments_this_run": CANARIES,
            "dry_run_only": SAID,
            "source_plan": [*TEXTS, 0, False, [], {}],
            "archive_first": FLAGS,
            "scheduled_by_connection": FLAGS,
        },
    ),
    (
        PlanRemoteLogCleanupOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "source_plan": [*TEXTS, 0, False, [], {}],
            "limits": LIMITS,
            "blast_radius": BLAST_RADIUS,
            "hold": HOLDS,
            "only": ONLY,
            "max_segments_this_run": CANARIES,
            "dry_run_only": SAID,
            "expires_in_ms": [*INTEGERS, None, 0, 31 * 86_400_000],
        },
    ),
    (
        CleanMetadataPartitionOperator,
        {"dry_run_only": False, "metadata_partition": 0},
        {
            "metadata_partition": [*INTEGERS, None, "../0", 2**31],
            "rlmm_conn_id": [None, "", *TEXTS],
            "limits": LIMITS,
            "hold": HOLDS,
            "dry_run_only": FLAGS,
            "archive_first": FLAGS,
            "approve_above": APPROVAL_LIMITS,
        },
    ),
    (
        ArchivePlannedSegmentsOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "limits": LIMITS,
            "archive_first": FLAGS,
            "dry_run_only": SAID,
        },
    ),
    (
        ArchiveRemoteLogOperator,
        {"topic_id": "AAAAAAAAAAAAAAAAAAAABw"},
        {
            "topic_id": [None, "", "orders", 7],
            "partitions": PARTITIONS,
            "rlmm_conn_id": [None, "", *TEXTS],
            "limits": LIMITS,
            "catalogue": [7, "a\nb", ["/tmp"]],
            "was_not_deleted": [7, "orders", ["orders"], [7], True],
            "deleted": [7, "a\nb", ["/tmp"]],
        },
    ),
    (
        RestoreRemoteLogOperator,
        {"dry_run_only": False, "topic_id": "AAAAAAAAAAAAAAAAAAAABw", "topic": "orders"},
        {
            "topic_id": [None, "", "orders", 7],
            "topic": [None, "", *TEXTS],
            "archived_cluster_id": [*TEXTS, 0, False, [], {}],
            "overrides": ["incomplete_archive", [1], [None], 5, {}, ["X"]],
            "catalogue": [7, "a\nb", ["/tmp"]],
            "was_not_deleted": [7, "orders", ["orders"], [7], True],
            "deleted": [7, "a\nb", ["/tmp"]],
            "lineages": [7, "orders", ["orders"], [7], True],
            "from_beginning": FLAGS,
            "start_time": MOMENTS,
            "start_offsets": OFFSETS,
            "end_offsets": OFFSETS,
            "bytes_per_second": [*(i for i in INTEGERS if i != ""), 0],
            "undecided": ["KEEP", "aborted", 1, True, ["keep"]],
            "offset_header": FLAGS,
            "dry_run_only": FLAGS,
            "rlmm_conn_id": [None, "", *TEXTS],
        },
    ),
    (ReportRemoteLogCleanupOperator, {}, {"rlmm_conn_id": [None, "", *TEXTS], "dry_run_only": SAID}),
    (RemoteLogCheckOperator, {}, {"rlmm_conn_id": [None, "", *TEXTS]}),
    (
        RemoteLogDeadManOperator,
        {},
        {"rlmm_conn_id": [None, "", *TEXTS], "after_days": [*(i for i in INTEGERS if i != ""), 367]},
    ),
    (
        RemoteLogMetadataDoctorOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "min_age_ms": [*INTEGERS, None],
            "max_copy_ms": [*INTEGERS, None],
            "limit_per_kind": [*INTEGERS, None, 100_001],
            "fail_on_critical": FLAGS,
        },
    ),
    (LeaderRetentionOperator, {}, {"rlmm_conn_id": [None, "", *TEXTS], "fail_on_overdue": FLAGS}),
    (
        ReadRemoteLogMetadataOperator,
        {"output_uri": "/nowhere"},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "output_uri": [None, "", *TEXTS],
            "start_offsets": OFFSETS,
            "end_offsets": OFFSETS,
        },
    ),
    (
        PublishRemoteLogMetadataOperator,
        {"events": []},
        {"rlmm_conn_id": [None, "", *TEXTS], "events": EVENTS, "limits": LIMITS},
    ),
    (
        SegmentRetentionOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "min_age_ms": [*INTEGERS, None, 86_399_999],
            "jars": [*TEXTS, 0, False, []],
            "kafka_properties_file": [*TEXTS, 0, False, []],
            "store_options_file": [*TEXTS, 0, False, []],
            "spark_files_folder": [*TEXTS, 0, False, []],
            "more_conf": [
                *MAPPINGS,
                *({"spark.x": wrong} for wrong in (None, [1], {}, "", "two\nlines", "x" * 10_000)),
                *({name: "x"} for name in ("spark.master", "spark.submit.deployMode", "SPARK.x", "")),
                '{"spark.x": ',
                '["spark.x"]',
                '{"spark.master": "local"}',
            ],
            "archives": [*TEXTS, 0, False, []],
            "yarn_queue": [*TEXTS, 0, False, []],
            "what_if": [
                5,
                True,
                {"a": 1},
                "retention.ms=1",
                '{"a": 1}',
                "[1]",
                "[",
                [5],
                ["retention=1"],
                ["retention.ms=-2"],
                ["retention.ms=1"] * 21,
            ],
        },
    ),
    (
        RemoteStorageScrubOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "max_copy_ms": [*INTEGERS, None],
            "price_per_gb_month": [-1, "-1", "much", True, [], NAN, INF, 1_000_001],
            "fail_on_problems": FLAGS,
            "overrides": ["move_stamp", [1], [None], 5, ["X"]],
            "confirm_lost_records": LOSSES,
            "confirm_metadata_topic_id": TOPIC_IDS,
        },
    ),
    (
        PlanRemoteStorageScrubOperator,
        {},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "limits": SCRUB_LIMITS,
            "blast_radius": BLAST_RADIUS,
            "hold": HOLDS,
            "only": ONLY,
            "max_segments_this_run": CANARIES,
            "dry_run_only": SAID,
            "confirm_lost_records": LOSSES,
            "confirm_metadata_topic_id": TOPIC_IDS,
            "expires_in_ms": [*INTEGERS, None, 0, 31 * 86_400_000],
        },
    ),
    (
        DeleteScrubbedObjectsOperator,
        {"dry_run_only": False},
        {
            "rlmm_conn_id": [None, "", *TEXTS],
            "limits": SCRUB_LIMITS,
            "hold": HOLDS,
            "dry_run_only": FLAGS,
            "approve_above": APPROVAL_LIMITS,
            "confirm_lost_records": LOSSES,
            "confirm_metadata_topic_id": TOPIC_IDS,
        },
    ),
    (
        RemoteLogGoneSensor,
        {"topic_id": "AAAAAAAAAAAAAAAAAAAABw"},
        {
            "topic_id": [None, 7, "", "orders", "AAAAAAAAAAAAAAAAAAAAAA"],
            "topic": [7, "a\nb", ["orders"]],
            "rlmm_conn_id": [None, "", *TEXTS],
            "allowed_quarantine": ["KEYED", ["NONE"], [5]],
            "overrides": ["unproven_root", ["nonsense"], [5]],
        },
    ),
    (
        RemoteLogReadOperator,
        {"topic": "orders", "output_uri": "/nowhere"},
        {
            "topic": [None, "", *TEXTS],
            "output_uri": [None, "", *TEXTS],
            "partitions": PARTITIONS,
            "start_offsets": OFFSETS,
            "end_offsets": OFFSETS,
            "start_time": MOMENTS,
            "end_time": MOMENTS,
            "isolation_level": [None, "", "committed", "READ_COMMITTED", 1, True, []],
            "allow_incomplete": FLAGS,
            "bytes_per_second": [*(i for i in INTEGERS if i != ""), 0],
            "catalogue": [7, "a\nb", ["/tmp"]],
            "was_not_deleted": [7, "orders", ["orders"], [7], True],
            "deleted": [7, "a\nb", ["/tmp"]],
            "lineages": [7, "orders", ["orders"], [7], True],
            "rlmm_conn_id": [None, "", *TEXTS],
        },
    ),
    (
        RecoverRemoteLogOperator,
        {"output_uri": "/nowhere"},
        {
            "output_uri": [None, "", *TEXTS],
            "topics": ["orders", 7, [1], [""], {"a": 1}],
            "cluster_id": [7, "a\nb", ["x"]],
            "manifests_per_second": [*(i for i in INTEGERS if i != ""), 0],
            "snapshots": ["/a.snapshot", ["a.snapshot"], [7]],
            "audits": ["/audit", ["audit"], [7]],
            "prove": FLAGS,
            "allow_gaps": FLAGS,
            "bytes_per_second": [*(i for i in INTEGERS if i != ""), 0],
            "fail_on_problems": FLAGS,
            "rlmm_conn_id": [None, "", *TEXTS],
        },
    ),
    (
        VerifyRemoteSegmentsOperator,
        {},
        {
            "topic": TEXTS,
            "share": [None, "", "much", True, [], NAN, INF, -0.1, 1.1],
            "allow_gaps": FLAGS,
            "bytes_per_second": [*(i for i in INTEGERS if i != ""), 0],
            "fail_on_damage": FLAGS,
            "rlmm_conn_id": [None, "", *TEXTS],
        },
    ),
    (
        CopyLogSegmentsOperator,
        {"dry_run_only": False, "log_dir": "/nowhere", "topic": "orders"},
        {
            "log_dir": [None, "", *TEXTS],
            "topic": [None, "", *TEXTS],
            "partitions": PARTITIONS,
            "snapshot_in": [7, "a\nb", ["/tmp"]],
            "limits": [
                *MAPPINGS,
                *({"bytes_per_second": wrong} for wrong in (*(i for i in INTEGERS if i != ""), 0)),
                *({"max_segments": wrong} for wrong in (*(i for i in INTEGERS if i != ""), 0)),
                {"lease_ms": 1},
                {"lease_ms": "soon"},
                {"retention_margin_ms": -1},
                {"overrides": ["unproven_root"]},
                {"overrides": "copy_without_leader"},
            ],
            "dry_run_only": FLAGS,
            "confirm_lost_records": LOSSES,
            "confirm_metadata_topic_id": TOPIC_IDS,
            "rlmm_conn_id": [None, "", *TEXTS],
        },
    ),
    (
        RemoteLogCopiedSensor,
        {"topic": "orders", "up_to": 5},
        {
            "topic": [None, "", *TEXTS],
            "up_to": [None, "", *MOMENTS],
            "partitions": PARTITIONS,
            "rlmm_conn_id": [None, "", *TEXTS],
        },
    ),
]
CASES = [
    pytest.param(operator, good, name, values, id=f"{operator.__name__}-{name}")
    for operator, good, bad in OPERATORS
    for name, values in bad.items()
]


def context(run_id: str = "run") -> Any:
    ti = SimpleNamespace(xcom_push=lambda key, value: None)
    return {"ti": ti, "dag_run": SimpleNamespace(dag_id="dag", run_id=run_id)}


@pytest.fixture
def untouchable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A work folder and connections; reading or writing the topic fails the test."""

    def touched(*_: Any) -> None:
        raise AssertionError("the cluster was touched")

    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setattr(RemoteLogMetadataHook, "check_cluster", lambda *_: "cluster-1")
    monkeypatch.setattr(RemoteLogMetadataHook, "get_connection_settings", touched)
    monkeypatch.setattr(RemoteLogMetadataHook, "get_event_log", touched)
    monkeypatch.setattr(RemoteLogMetadataHook, "get_cluster_topics", touched)


def refusal_of(value: Any, call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    try:
        call(*arguments, **named)
    except ConfigurationError as e:
        return str(e)
    raise AssertionError(f"{value!r} was taken")


@pytest.mark.parametrize(("operator", "good", "name", "values"), CASES)
def test_a_wrong_argument_is_named_and_nothing_is_touched(
    untouchable: None, tmp_path: Path, operator: Callable[..., Any], good: dict[str, Any], name: str, values: list[Any]
) -> None:
    for value in values:
        text = refusal_of(value, operator, task_id="task", **{**good, name: value})
        rendered = operator(task_id="task", **good)
        # As a template may turn out.
        setattr(rendered, name, value)
        assert refusal_of(value, rendered.execute, context()) == text
        inner = next(iter(value)) if isinstance(value, dict) and isinstance(next(iter(value), None), str) else name
        assert name in text or str(inner) in text or name == "events"
        allowed = (
            "must be|known are|hold entry|only entry|only names no topic|needs the override|twice|neither|cannot be|"
            "nothing says"
        )
        assert re.search(allowed, text)
        assert len(text) < 1_000
        assert "\n" not in text
        assert not (tmp_path / "work").exists()


def test_the_table_has_every_argument_of_every_operator() -> None:
    for operator, _, bad in OPERATORS:
        assert issubclass(operator, CheckedOperator)  # type: ignore[arg-type]
        readers = arguments.readers_of(operator.arguments)
        assert readers.keys() == bad.keys(), operator
        inherited = set(SparkSubmitOperator.template_fields) if operator is SegmentRetentionOperator else set()
        assert set(operator.template_fields) - inherited <= readers.keys(), operator
    assert {operator for operator, _, _ in OPERATORS} == set(checked_operators())


UNREAD = {"self", "kwargs", "poke_interval", "recheck_interval"}
"""Airflow reads these itself."""


@pytest.mark.parametrize("operator", list(checked_operators()), ids=lambda operator: operator.__name__)
def test_a_signature_and_what_it_means_say_the_same(operator: type[CheckedOperator[Any]]) -> None:
    signature = inspect.signature(operator.__init__).parameters
    declared = {field.name: field for field in dataclasses.fields(operator.arguments)}
    assert signature.keys() - UNREAD == declared.keys()
    assert operator.arguments.__dataclass_params__.frozen
    for name, read in arguments.readers_of(operator.arguments).items():
        default, meant = signature[name].default, declared[name].default_factory
        assert (default is inspect.Parameter.empty) == (meant is dataclasses.MISSING), name
        if default is not inspect.Parameter.empty:
            assert read(name, default) == meant(), name
    assert set(operator.template_fields) & declared.keys() == arguments.templated_of(operator.arguments)
    for name, declaration in arguments.declarations_of(operator.arguments).items():
        assert (name, meant_of(declared[name])) == (declaration.name, declaration.default)


def meant_of(argument: dataclasses.Field[Any]) -> object:
    assert argument.default_factory is not dataclasses.MISSING
    return argument.default_factory()


# --- the toolkit ------------------------------------------------------------------------------------------------------


def test_properties_of_spark_are_read_as_a_mapping_and_as_json() -> None:
    given = {"spark.a": 5, "spark.b": True, "spark.c": "x", "spark.d": 0.5}
    meant = {"spark.a": "5", "spark.b": "true", "spark.c": "x", "spark.d": "0.5"}
    for written in (given, json.dumps(given)):
        assert arguments.spark_properties("more_conf", written) == meant
    assert arguments.spark_properties("more_conf", "{}") == {}


def test_limits_take_what_templates_render() -> None:
    limits = cleaner_limits(
        "limits",
        {
            "min_absence_ms": " 86400000 ",
            "batch_segments": 7,
            "max_missing_segments": "0",
            "allowed_quarantine": ["KEYED", "MISROUTED"],
            "overrides": None,
            "objects_per_second": "50",
            "deletion_window": "22:00-06:00 Europe/Berlin",
        },
    )
    assert (limits.objects_per_second, limits.deletion_window) == (50, "22:00-06:00 Europe/Berlin")
    assert cleaner_limits("limits", {"objects_per_second": "None", "deletion_window": ""}) == cleaner_limits(
        "limits", None
    )
    assert (limits.min_absence_ms, limits.batch_segments, limits.max_missing_segments) == (86_400_000, 7, 0)
    assert (limits.allowed_quarantine, limits.overrides) == ({"KEYED", "MISROUTED"}, frozenset())
    assert cleaner_limits("limits", None) == cleaner_limits("limits", {})
    assert (
        blast_radius("blast_radius", {"max_share": "0.25", "max_bytes": None, "max_segments": "007"}).max_share == 0.25
    )
    assert blast_radius("blast_radius", None) == blast_radius("blast_radius", {})


@pytest.mark.parametrize(
    ("value", "meant"), [("0", 0.0), ("1", 1.0), (".5", 0.5), ("1e-05", 1e-05), (0, 0.0), ("1.0", 1.0)]
)
def test_shares(value: Any, meant: float) -> None:
    assert arguments.share("max_share", value) == meant


@pytest.mark.parametrize(("value", "meant"), [(True, True), ("False", False), ("true", True), (False, False)])
def test_flags(value: object, meant: bool) -> None:
    assert flag("dry_run_only", value) is meant


def test_offsets_take_what_an_xcom_holds() -> None:
    assert arguments.offsets("start_offsets", {"0": 5, 3: "7"}) == {0: 5, 3: 7}
    assert arguments.offsets("start_offsets", None) == {}


HOLD_ENTRIES = arguments.reader_of(run_parameters.HOLD)


def test_only_nothing_lifts_a_hold() -> None:
    assert HOLD_ENTRIES("hold", None) == HOLD_ENTRIES("hold", "") == HOLD_ENTRIES("hold", []) == ()
    assert HOLD_ENTRIES("hold", ["legal-*", "orders"]) == ("legal-*", "orders")
    for slip in (0, False, {}):
        with pytest.raises(ConfigurationError, match="hold"):
            HOLD_ENTRIES("hold", slip)


ONLY_ENTRIES = arguments.reader_of(run_parameters.ONLY)


def test_nothing_but_a_star_is_all_topics() -> None:
    assert ONLY_ENTRIES("only", ["*"]) == run_parameters.ONLY.default == ("*",)
    assert ONLY_ENTRIES("only", ["orders", "legal-*"]) == ("legal-*", "orders")
    for slip in (None, "", [], [""]):
        with pytest.raises(ConfigurationError, match=r"only names no topic: write \*"):
            ONLY_ENTRIES("only", slip)


def test_optional_texts() -> None:
    assert [arguments.text_or_none("source_plan", v) for v in (None, "", "plan")] == [None, None, "plan"]


def test_messages_name_the_field_the_value_and_what_is_allowed() -> None:
    for given, message in (
        ({"batch_segments": 0}, "batch_segments must be an integer from 1 to 10000, not 0"),
        ({"batch_segments": HUGE}, "batch_segments must be an integer from 1 to 10000, not a huge integer"),
        ({"batch_segments": "1.5"}, "batch_segments must be an integer from 1 to 10000, not '1.5'"),
        ({"batch_segments": [1]}, "batch_segments must be an integer from 1 to 10000, not a value of type list"),
        ({"overrides": "all"}, "overrides must be a list of at most 1000 names, not 'all'"),
        ({"batch": 1}, "unknown limits ['batch']; known are ['allowed_quarantine', 'batch_segments', "),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            cleaner_limits("limits", given)
    with pytest.raises(ConfigurationError) as error:
        arguments.integer("n", "9" * 10**6)
    assert len(str(error.value)) < 200


def test_a_run_has_one_artifact_name_and_another_run_another() -> None:
    assert artifact_name(context("manual__2026-01-01T00:00:00+00:00")) == "dag.manual__2026-01-01T00-00-00-00-00"
    long = [artifact_name(context("x" * 200 + end)) for end in ("1", "2")]
    assert len(set(long)) == 2
    assert {len(name) for name in long} == {128}
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", artifact_name(context("../../etc/passwd")))
