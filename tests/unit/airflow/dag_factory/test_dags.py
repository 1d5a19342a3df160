# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, RetryAction
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    EventLogUnavailableError,
    PublishOutcomeUnknownError,
    RlmmError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.base.values import duration_ms
from airflow_provider_rlmm.core.plans.limits import MAX_COPY, MIN_ABSENCE, MIN_AGE, MIN_UNREFERENCED
from airflow_provider_rlmm.operators import retrying
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retrying import RETRY_WHAT_MAY_PASS
from airflow_provider_rlmm.resources import dags_folder

FILES = sorted(Path(dags_folder()).glob("*.py"))
POLICY = RETRY_WHAT_MAY_PASS["retry_policy"]
HEAVY = ["pyspark", "confluent_kafka", "obstore", "pyarrow", "numpy", "pandas", "fastapi"]

IMPORT_AND_WATCH = """
import json, os, runpy, sys
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
before = set(sys.modules)
opened = []
watched = {"socket.connect", "socket.getaddrinfo", "socket.sendto"}
sys.addaudithook(lambda event, args: opened.append([event, str(args)]) if event in watched else None)
for path in sys.argv[2:]:
    if os.fork() == 0:  # each file sees what was imported before the first
        runpy.run_path(path)
        heavy = sorted(set(sys.argv[1].split(",")) & {m.partition(".")[0] for m in set(sys.modules) - before})
        print("PARSED", json.dumps([path, [heavy, opened]]), flush=True)
        os._exit(0)
    os.wait()
"""


def load_all(dag_id: str) -> list[DAG]:
    spec = importlib.util.spec_from_file_location(dag_id, Path(dags_folder()) / f"{dag_id}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dags: list[DAG] = module.dags
    return dags


def load(dag_id: str) -> DAG:
    (dag,) = load_all(dag_id)
    return dag


@pytest.fixture(scope="module")
def cleaner() -> DAG:
    return load("remote_log_cleaner")


@pytest.fixture(scope="module")
def retention() -> DAG:
    return load("remote_log_retention")


@pytest.fixture(scope="module")
def scrub() -> DAG:
    return load("remote_storage_scrub")


@pytest.fixture(scope="module")
def contents() -> DAG:
    return load("remote_log_contents")


def rendered(dag: DAG, task_id: str, expanded: dict[str, Any] | None = None, **params: Any) -> Any:
    """Return the task as it runs, its templates rendered with the DAG's parameters."""
    task: Any = dag.get_task(task_id)
    if expanded is not None:
        task = task.unmap(expanded)
    task = task.prepare_for_execution()
    values = {name: dag.params.get_param(name).resolve() for name in dag.params} | params
    var = SimpleNamespace(value={})
    task.render_template_fields({"params": values, "var": var}, dag.get_template_env())
    return task


@pytest.fixture(scope="module")
def parsed() -> dict[str, Any]:
    """Path of each DAG file → what parsing it has imported and opened; Airflow, which takes seconds, is imported once."""
    command = [sys.executable, "-c", IMPORT_AND_WATCH, ",".join(HEAVY), *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = (line.removeprefix("PARSED ") for line in done.stdout.splitlines() if line.startswith("PARSED "))
    return dict(map(json.loads, told))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_parsing_imports_nothing_heavy_and_opens_no_connection(file: Path, parsed: dict[str, Any]) -> None:
    assert parsed[str(file)] == [[], []]


def test_there_are_five_dags_and_all_survive_serialization() -> None:
    assert [f.stem for f in FILES] == sorted(IDS)
    for dag in map(load, IDS):
        known = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
        assert sorted(known.task_ids) == sorted(dag.task_ids)
        assert known.doc_md == dag.doc_md
        assert dag.doc_md is not None
        assert "SPDX" not in dag.doc_md


# -- one set of DAGs per connection ------------------------------------------------------------------------------------

IDS = ["remote_log_cleaner", "remote_log_retention", "remote_storage_scrub", "remote_log_doctor", "remote_log_contents"]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__CONNECTIONS", "rlmm_default, prod-2")


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("dag_id", IDS)
def test_each_connection_has_dags_and_assets_of_its_own(dag_id: str) -> None:
    ours, others = load_all(dag_id)
    assert (ours.dag_id, others.dag_id) == (dag_id, f"{dag_id}__prod-2")
    assert sorted(ours.task_ids) == sorted(others.task_ids)

    def outlets(dag: DAG) -> set[str]:
        return {asset.name for task in dag.tasks for asset in task.outlets}

    assert outlets(others) == {f"{name}__prod-2" for name in outlets(ours)}
    assert rendered(others, next(iter(others.topological_sort())).task_id).rlmm_conn_id == "prod-2"


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("dag_id", IDS)
def test_no_run_leads_to_the_connection_of_other_dags(dag_id: str) -> None:
    ours, others = (dag.params.get_param("rlmm_conn_id") for dag in load_all(dag_id))
    assert ours.resolve("rlmm_default") == "rlmm_default"
    assert ours.resolve("no_dags_of_its_own") == "no_dags_of_its_own"
    assert others.resolve("prod-2") == "prod-2"
    for param, wrong in ((ours, "prod-2"), (others, "rlmm_default"), (others, "no_dags_of_its_own"), (others, None)):
        with pytest.raises(ParamValidationError):
            param.resolve(wrong)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CONNECTIONS", "prod/2", r"\[rlmm\] connections must be ids of connections .*, not 'prod/2'"),
        ("CONNECTIONS", "a.b", r"\[rlmm\] connections must be .*, not 'a.b'"),
        ("CONNECTIONS", "a,a", r"\[rlmm\] connections must be at least one id, and each id once"),
        ("CONNECTIONS", ",", r"\[rlmm\] connections must be at least one id"),
        ("CLEANER_SCHEDULE", "dayly", r"\[rlmm\] cleaner_schedule must be a cron .* words none, plan, .*not 'dayly'"),
        ("CLEANER_SCHEDULE", "* * * * * *", r"\[rlmm\] cleaner_schedule must be a cron expression of five fields"),
        ("CLEANER_SCHEDULE", "@once", r"\[rlmm\] cleaner_schedule must be"),
    ],
)
def test_a_wrong_setting_fails_when_the_file_is_parsed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"AIRFLOW__RLMM__{name}", value)
    with pytest.raises(ConfigurationError, match=said):
        load("remote_log_cleaner")


def test_only_the_cleaner_starts_by_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    for dag_id, kind in (
        ("remote_log_retention", "RETENTION"),
        ("remote_storage_scrub", "SCRUB"),
        ("remote_log_contents", "CONTENTS"),
    ):
        monkeypatch.setenv(f"AIRFLOW__RLMM__{kind}_SCHEDULE", "plan")
        with pytest.raises(ConfigurationError, match="_schedule must be a cron"):
            load(dag_id)


def test_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [load(dag_id).schedule for dag_id in IDS] == ["@daily", None, "@weekly", "@daily", None]
    assert not any(load(dag_id).catchup for dag_id in IDS)
    monkeypatch.setenv("AIRFLOW__RLMM__CLEANER_SCHEDULE", " None ")
    monkeypatch.setenv("AIRFLOW__RLMM__RETENTION_SCHEDULE", "0 20 * * 6")
    assert (load(IDS[0]).schedule, load(IDS[1]).schedule) == (None, "0 20 * * 6")


def test_the_plan_of_a_connection_starts_its_own_cleaner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__CONNECTIONS", "rlmm_default,prod")
    monkeypatch.setenv("AIRFLOW__RLMM__CLEANER_SCHEDULE", "plan")
    waits: Any = [dag.schedule for dag in load_all("remote_log_cleaner")]
    emits = [dag.get_task("publish").outlets for dag in load_all("remote_log_retention")]
    assert waits == emits
    assert [[asset.name for asset in assets] for assets in waits] == [["remote_log_plan"], ["remote_log_plan__prod"]]


def test_markers_of_others_start_the_cleaner_of_their_cluster_and_each_day_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__CONNECTIONS", "rlmm_default,prod")
    monkeypatch.setenv("AIRFLOW__RLMM__CLEANER_SCHEDULE", "markers")
    schedules: Any = [dag.schedule for dag in load_all("remote_log_cleaner")]
    watched = [schedule.asset_condition.objects for schedule in schedules]
    assert [[asset.name for asset in assets] for assets in watched] == [
        ["remote_log_markers"],
        ["remote_log_markers__prod"],
    ]
    assert [assets[0].watchers[0].trigger.rlmm_conn_id for assets in watched] == ["rlmm_default", "prod"]
    assert [schedule.timetable.expression for schedule in schedules] == ["0 0 * * *"] * 2


def test_the_steps_of_a_scrub(scrub: DAG) -> None:
    assert [t.task_id for t in scrub.topological_sort()] == ["scrub", "plan", "approve", "delete", "report"]
    assert scrub.get_task("report").trigger_rule == "all_done"
    first = rendered(scrub, "scrub", price_per_gb_month=0.02)
    assert (first.fail_on_problems, first.price_per_gb_month, first.overrides) == (False, 0.02, [])
    assert rendered(scrub, "scrub").price_per_gb_month is None
    for task_id in ("plan", "delete"):
        task = rendered(scrub, task_id)
        assert task.dry_run_only is True
        assert task.limits == {
            "min_unreferenced_ms": "72 h", "min_absence_ms": "24 h", "batch_segments": 2_000, "overrides": [],
            "objects_per_second": None, "deletion_window": None,
        }  # fmt: skip
    for task_id in ("approve", "delete"):
        above = {"approve_above_segments": 10_000, "approve_above_bytes": 2**40}
        assert rendered(scrub, task_id).approve_above == above
        assert rendered(scrub, task_id, dry_run=False).dry_run_only is False
    assert rendered(scrub, "approve", answer_within="2 h").answer_within == "2 h"
    assert rendered(scrub, "plan").blast_radius == {"max_segments": 100_000, "max_bytes": 10 * 2**40, "max_share": 0.5}


def test_the_steps_follow_each_other(cleaner: DAG, retention: DAG) -> None:
    steps = ["check", "mark", "plan", "approve", "archive", "clean", "survey", "report"]
    assert [t.task_id for t in cleaner.topological_sort()] == steps
    assert [t.task_id for t in retention.topological_sort()] == ["evaluate", "publish"]
    assert cleaner.get_task("report").trigger_rule == "all_done"
    assert [asset.name for asset in cleaner.get_task("report").outlets] == ["remote_log_cleanup"]
    assert [asset.name for asset in retention.get_task("publish").outlets] == ["remote_log_plan"]


def test_templates_are_rendered_to_values_of_their_kind(cleaner: DAG) -> None:
    check = rendered(cleaner, "check")
    assert (check.rlmm_conn_id, check.source_plan, check.dry_run_only) == ("rlmm_default", None, True)
    assert check.scheduled_by_connection is True
    assert rendered(cleaner, "check", source_plan="s3://bucket/plan").source_plan == "s3://bucket/plan"
    plan = rendered(cleaner, "plan", max_share=0.25, overrides=["short_min_absence"])
    assert plan.blast_radius == {"max_segments": 100_000, "max_bytes": 10 * 2**40, "max_share": 0.25}
    assert plan.limits == {
        "min_absence_ms": "24 h",
        "batch_segments": 2_000,
        "max_missing_segments": 10,
        "allowed_quarantine": [],
        "overrides": ["short_min_absence"],
        "objects_per_second": None,
        "deletion_window": None,
        "max_minutes": None,
    }
    paced = rendered(
        cleaner, "clean", {"metadata_partition": 3}, deletion_window="22:00-06:00 UTC", objects_per_second=5
    )
    assert (paced.limits["deletion_window"], paced.limits["objects_per_second"]) == ("22:00-06:00 UTC", 5)
    clean = rendered(cleaner, "clean", {"metadata_partition": 3}, batch_segments=7)
    assert (clean.metadata_partition, clean.limits["batch_segments"]) == (3, 7)


def test_a_form_says_durations_in_words_and_takes_numbers_too() -> None:
    """What the form offers is the default of the rule behind it; what was documented before is taken as ever."""
    for dag_id, name, default in (
        ("remote_log_cleaner", "min_absence_ms", MIN_ABSENCE.default),
        ("remote_log_cleaner", "answer_within", 18 * HOUR_MS),
        ("remote_log_retention", "min_age_ms", MIN_AGE.default),
        ("remote_storage_scrub", "max_copy_ms", MAX_COPY.default),
        ("remote_storage_scrub", "min_unreferenced_ms", MIN_UNREFERENCED.default),
    ):
        param = load(dag_id).params.get_param(name)
        assert duration_ms(name, param.value) == default
        for good in (default, str(default), "3 d 2 h", "90 min"):
            assert param.resolve(good) == good


def test_every_parameter_has_a_name_that_people_read_and_a_section() -> None:
    for dag_id in IDS:
        params = load(dag_id).params
        for name in params:
            schema = params.get_param(name).schema
            assert schema["title"] != name
            assert params.get_param(name).description
            assert "section" in schema or dag_id == "remote_log_retention"
        if "dry_run" in params:
            assert params["dry_run"] is True


def test_the_form_opens_one_section_that_comes_first_and_folds_the_others() -> None:
    for dag_id in IDS:
        params = load(dag_id).params
        sections = list(
            dict.fromkeys(params.get_param(name).schema.get("section", "Run Parameters") for name in params)
        )
        assert sections[0] == "Run Parameters", f"{dag_id}: Airflow opens the section of this name only"
        opened = [n for n in params if params.get_param(n).schema.get("section", "Run Parameters") == "Run Parameters"]
        assert "rlmm_conn_id" in opened
        assert len(opened) <= 8, dag_id


def test_whoever_deletes_asks_for_the_same_approval_as_was_asked_for(cleaner: DAG) -> None:
    asks = rendered(cleaner, "approve", approve_above_segments=5)
    deletes = rendered(cleaner, "clean", {"metadata_partition": 3}, approve_above_segments=5)
    assert asks.approve_above == {"approve_above_segments": 5, "approve_above_bytes": 2**40}
    assert deletes.approve_above == asks.approve_above
    assert asks.serialized_params == {}
    assert (asks.answer_within, asks.defaults, asks.dry_run_only) == ("18 h", ["Reject"], "as checked")


def test_only_the_first_task_reads_whether_it_is_a_dry_run_and_which_plan_is_taken(cleaner: DAG) -> None:
    assert rendered(cleaner, "check", dry_run=False).dry_run_only is False
    for task_id in ("mark", "plan", "clean", "report"):
        expanded = {"metadata_partition": 3} if task_id == "clean" else None
        task = rendered(cleaner, task_id, expanded, dry_run=False, source_plan="another")
        assert task.dry_run_only == "as checked", task_id
        assert getattr(task, "source_plan", "as checked") == "as checked"


def test_a_mapped_task_is_named_by_its_metadata_partition_and_counts(cleaner: DAG) -> None:
    template = cleaner.get_template_env().from_string(str(cleaner.get_task("clean").map_index_template))
    context: dict[str, Any] = {"task": SimpleNamespace(metadata_partition=3)}
    assert template.render(context) == "metadata partition 3"
    assert template.render(context | {"rlmm_counts": ": 5 segments deleted"}) == (
        "metadata partition 3: 5 segments deleted"
    )


def test_the_spark_task_takes_its_jars_from_the_variable(retention: DAG) -> None:
    evaluate = rendered(retention, "evaluate", min_age_ms=90_000_000)
    assert (evaluate.jars, evaluate.min_age_ms, evaluate.rlmm_conn_id) == ("", "90000000", "rlmm_default")
    assert evaluate.application.endswith("spark_jobs/segment_retention.py")


def test_the_spark_task_is_told_where_executors_get_their_python(retention: DAG) -> None:
    told = {"spark.pyspark.python": "./environment/bin/python", "spark.executor.cores": 2}
    archives = "s3a://bucket/environment.tar.gz#environment"
    task = rendered(retention, "evaluate", conf=told, archives=archives, queue="etl", image="registry/spark:1")
    assert task.read_arguments().more_conf == {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executor.cores": "2",
    }
    assert (task.archives, task.yarn_queue) == (archives, "etl")
    assert task.conf["spark.kubernetes.container.image"] == "registry/spark:1"
    plain = rendered(retention, "evaluate")
    assert (plain.read_arguments().more_conf, plain.archives, plain.yarn_queue) == ({}, "", "")
    assert plain.conf["spark.kubernetes.container.image"] == ""


@pytest.mark.parametrize(
    ("dag_id", "name", "value", "said"),
    [
        ("remote_log_cleaner", "dry_run", "yes", "'yes' is not of type 'boolean'"),
        ("remote_log_cleaner", "min_absence_ms", -1, "-1 is less than the minimum of 0"),
        ("remote_log_cleaner", "batch_segments", 0, "0 is less than the minimum of 1"),
        ("remote_log_cleaner", "max_share", 1.5, "1.5 is greater than the maximum of 1"),
        ("remote_log_cleaner", "min_absence_ms", "a day", "'a day' does not match"),
        ("remote_log_cleaner", "answer_within", "", "'' does not match"),
        ("remote_log_retention", "min_age_ms", "", "'' does not match"),
        ("remote_log_cleaner", "max_bytes", "all", "'all' is not of type 'integer'"),
        ("remote_log_cleaner", "overrides", ["no_such_override"], "'no_such_override' is not one of"),
        ("remote_log_cleaner", "overrides", "short_min_age", "'short_min_age' is not of type 'array'"),
        ("remote_log_cleaner", "hold", "prod-*", "'prod-*' is not of type 'array'"),
        ("remote_log_cleaner", "rlmm_conn_id", None, "None is not of type 'string'"),
        ("remote_log_retention", "min_age_ms", 1000, "1000 is less than the minimum of 86400000"),
        ("remote_log_retention", "conf", {"executor.cores": 2}, "'executor.cores' does not match"),
        ("remote_log_retention", "conf", {"spark.x": ["y"]}, "is not of type 'string', 'number', 'boolean'"),
        ("remote_storage_scrub", "price_per_gb_month", "abc", "'abc' is not of type"),
        ("remote_storage_scrub", "dry_run", "no", "'no' is not of type 'boolean'"),
        ("remote_log_contents", "share", 0, "0 is less than or equal to the minimum of 0"),
        ("remote_log_contents", "share", 1.5, "1.5 is greater than the maximum of 1"),
        ("remote_log_contents", "bytes_per_second", 0, "0 is less than the minimum of 1"),
        ("remote_log_contents", "topic", None, "None is not of type 'string'"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_before_the_run(dag_id: str, name: str, value: Any, said: str) -> None:
    with pytest.raises(ParamValidationError, match=re.escape(said)):
        load(dag_id).params.get_param(name).resolve(value)


def test_unknown_parameters_are_refused_by_the_first_task(
    cleaner: DAG, retention: DAG, scrub: DAG, contents: DAG
) -> None:
    for dag, first in ((cleaner, "check"), (retention, "evaluate"), (scrub, "scrub"), (contents, "verify")):
        assert dag.get_task(first)._pre_execute_hook is refuse_unknown_params
        good: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={"rlmm_conn_id": "x"})}
        refuse_unknown_params(good)
        bad: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={"dry_rum": True})}
        with pytest.raises(ConfigurationError, match=r"unknown parameters \['dry_rum'\]; this DAG has .*rlmm_conn_id"):
            refuse_unknown_params(bad)


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (EventLogUnavailableError("x"), RetryAction.DEFAULT),
        (StorageUnavailableError("x"), RetryAction.DEFAULT),
        (PublishOutcomeUnknownError("x"), RetryAction.DEFAULT),
        (StorageRootError("x"), RetryAction.FAIL),
        (ClusterMismatchError("x"), RetryAction.FAIL),
        (ConfigurationError("x"), RetryAction.FAIL),
        (OSError("x"), RetryAction.DEFAULT),
    ],
)
def test_only_what_may_pass_is_tried_again(cleaner: DAG, error: Exception, action: RetryAction) -> None:
    clean = cleaner.get_task("clean")
    assert clean.retry_policy is POLICY
    assert (clean.retries, clean.retry_delay) == (2, timedelta(seconds=30))
    assert POLICY.evaluate(error, 1, 3).action is action


def test_an_airflow_without_retry_policies_only_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.sdk", ModuleType("airflow.sdk"))
    assert retrying._policy() == {}


def test_every_retriable_error_is_tried_again() -> None:
    def subclasses(base: type[RlmmError]) -> set[type[RlmmError]]:
        return {base}.union(*(subclasses(c) for c in base.__subclasses__()))

    for kind in subclasses(RlmmError):
        if kind.retriable:
            assert POLICY.evaluate(kind("x"), 1, 3).action is RetryAction.DEFAULT, kind


def test_no_task_of_the_doctor_hides_the_failure_of_another() -> None:
    dag = load("remote_log_doctor")
    assert sorted(dag.task_ids) == ["alarm", "check", "doctor", "leaders", "survey"]
    assert {task.task_id for task in dag.leaves} == set(dag.task_ids)


def test_a_scrub_of_contents_takes_a_paced_sample_unless_it_is_told_otherwise(
    contents: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [task.task_id for task in contents.tasks] == ["verify"]
    sample = rendered(contents, "verify").read_arguments()
    assert (sample.topic, sample.share, sample.allow_gaps, sample.bytes_per_second) == (None, 0.05, False, 50_000_000)
    assert (sample.fail_on_damage, sample.rlmm_conn_id) == (True, "rlmm_default")
    # A topic may be named like a number.
    whole = rendered(contents, "verify", topic="2024", share=1, allow_gaps=True, bytes_per_second=None).read_arguments()
    assert (whole.topic, whole.share, whole.allow_gaps, whole.bytes_per_second) == ("2024", 1.0, True, None)
    assert contents.get_task("verify").retry_policy is POLICY
    monkeypatch.setenv("AIRFLOW__RLMM__CONTENTS_SCHEDULE", "0 2 * * *")
    assert load("remote_log_contents").schedule == "0 2 * * *"
