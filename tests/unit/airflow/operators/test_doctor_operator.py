# SPDX-License-Identifier: Apache-2.0
"""The doctor's operator over the in-process log: what it reports, keeps and fails on."""

from __future__ import annotations

import datetime
import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, ConfigurationError, UnhealthyTopicError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.features.retention.leader_document import LEADER_RETENTION_DOCUMENT, ReportedLeaders
from airflow_provider_rlmm.features.retention.leader_retention import LeaderRetention
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from tests.sample_leaders import reported_leaders
from tests.unit.core.records.events import PARTITION, copied, started
from tests.unit.library.topics import new_log, put, topics


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcessMetadataEventLog:
    """A clean topic behind the hook, called as the connection says."""
    log = new_log()
    put(log, started(1), copied(1))
    cluster = topics()
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    connect(monkeypatch)
    monkeypatch.setattr(RemoteLogMetadataHook, "get_event_log", lambda self: nullcontext(log))
    monkeypatch.setattr(RemoteLogMetadataHook, "get_cluster_topics", lambda self: cluster)
    leaders_told(tmp_path)
    return log


def leaders_told(tmp_path: Path, **more: bool) -> None:
    """Have an earlier run have asked the leaders; they do all that they should unless it says otherwise."""
    document = tmp_path / "work" / cluster_folder("cluster-1") / LEADER_RETENTION_DOCUMENT
    document.parent.mkdir(parents=True, exist_ok=True)
    nothing = ReportedLeaders.of(
        LeaderRetention(()), cluster_id="cluster-1", connection="rlmm_default", asked_at_ms=system_clock()
    )
    told = reported_leaders("cluster-1", "orders", UUID(int=7), now_ms=system_clock(), **more) if more else nothing
    document.write_text(told.to_json())


def connect(monkeypatch: pytest.MonkeyPatch, cluster_id: str = "cluster-1") -> None:
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    extra = {"metadata_topic": "metadata-of-tests", "expected_cluster_id": cluster_id}
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm", "extra": extra}))


def run(**arguments: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Run the operator; returns its result, what it pushed, and its report."""
    pushed: dict[str, Any] = {}
    task = RemoteLogMetadataDoctorOperator(task_id="doctor", **arguments)
    context: Any = {
        "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
        "dag_run": SimpleNamespace(dag_id="dag", run_id="run"),
    }
    result = task.execute(context)
    return result, pushed, json.loads(Path(result["report"], "doctor.json").read_text())


def test_a_clean_topic(log: InProcessMetadataEventLog, tmp_path: Path) -> None:
    result, pushed, report = run()
    uri = str(tmp_path / "work" / "dag.run")
    assert result == {"records": 2, "segments": 1, "critical": 0, "counts": {}, "report": uri}
    assert pushed == {"rlmm_doctor": "dag.run"}
    assert (report["findings"], sum(report["read_until"].values())) == ([], 2)


def test_critical_findings_fail_the_task_after_the_report(log: InProcessMetadataEventLog, tmp_path: Path) -> None:
    offset = log.append(0, None)
    with pytest.raises(
        UnhealthyTopicError, match=rf"1 thing needs a person.* metadata partition 0 offset {offset} .*TOMBSTONE"
    ):
        run()
    report = json.loads((tmp_path / "work" / "dag.run" / "doctor.json").read_text())
    assert report["counts"] == {"TOMBSTONE": 1, "UNDER_PROOF": 1}
    assert report["recoveries"][0]["delete_before_offset"] == offset + 1


def test_what_leaders_were_told_last_is_a_finding_and_fails_nothing(
    log: InProcessMetadataEventLog, tmp_path: Path
) -> None:
    leaders_told(tmp_path, overdue=True)
    result, _, report = run()
    assert (result["critical"], result["counts"]) == (0, {"OVERDUE": 1, "LEAKED": 1, "LEADERS_UNTOLD": 1})
    details = {finding["kind"]: finding["detail"] for finding in report["findings"]}
    assert details["OVERDUE"].startswith("2 segments, 1.9 MiB, are still there, as leaders were asked ")
    assert "in the log of broker 4, its leader" in details["OVERDUE"]
    assert details["LEADERS_UNTOLD"].endswith("of 3 user partitions delete, and of 0 whether anything is overdue")
    leaders_told(tmp_path, overdue=False, judged=False)
    (untold,) = [f["detail"] for f in run()[2]["findings"] if f["kind"] == "LEADERS_UNTOLD"]
    assert untold.endswith("of 3 whether anything is overdue")
    (document,) = (tmp_path / "work").glob(f"cluster-*/{LEADER_RETENTION_DOCUMENT}")
    for damaged, why in ((document.read_text()[:-9], "cannot be read"), (None, "they were not asked")):
        document.write_text(damaged) if damaged else document.unlink()
        (finding,) = run()[2]["findings"]
        assert (finding["kind"], why in finding["detail"]) == ("LEADERS_UNTOLD", True)


def test_it_reports_and_succeeds_where_it_is_told_to(log: InProcessMetadataEventLog) -> None:
    for _ in range(3):
        log.append(0, None)
    result, _, report = run(fail_on_critical="false", limit_per_kind="2")
    assert result["counts"] == {"TOMBSTONE": 3, "UNDER_PROOF": 1}
    assert [f["kind"] for f in report["findings"]] == ["TOMBSTONE", "TOMBSTONE", "UNDER_PROOF"]


def test_the_age_of_what_is_stuck_is_an_argument(log: InProcessMetadataEventLog) -> None:
    put(log, started(2, 100, 199))
    assert run()[0]["counts"] == {"STUCK_SEGMENT": 1}
    assert run(min_age_ms=str(10**15))[0]["counts"] == {}


def test_what_needs_a_person_fails_the_task_though_no_record_is_bad(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living topic has begun a copy, long ago, and finished none."""
    put(log, started(2, 100, 199))
    cluster = topics()
    cluster.topics = {"metadata-of-tests": UUID(int=99), PARTITION.topic: PARTITION.topic_id}
    monkeypatch.setattr(RemoteLogMetadataHook, "get_cluster_topics", lambda self: cluster)
    with pytest.raises(UnhealthyTopicError, match=r"1 thing needs a person.* COPYING_STOPPED .*orders-2"):
        run()
    assert run(max_copy_ms=str(10**15))[0]["critical"] == 0


def acknowledge(monkeypatch: pytest.MonkeyPatch, until: str, **key: Any) -> None:
    said = {"cluster_id": "cluster-1", "by": "me", "why": "known", "until": until, **key}
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", json.dumps([said]))


def test_what_is_acknowledged_fails_no_more_and_what_is_new_does(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    until, past = ((now + datetime.timedelta(days=days)).isoformat() for days in (7, -1))
    # A record that cannot be applied is one problem, whoever reports it.
    known = {"kind": "QUARANTINED", "metadata_partition": 0, "offset": log.append(0, None)}
    acknowledge(monkeypatch, until, **known)
    assert run()[0]["critical"] == 1
    acknowledge(monkeypatch, past, **known)
    with pytest.raises(UnhealthyTopicError, match="its acknowledgement expired"):
        run()
    acknowledge(monkeypatch, until, **known)
    offset = log.append(0, b"junk")
    with pytest.raises(UnhealthyTopicError, match=rf"1 thing needs a person.* offset {offset} "):
        run()
    acknowledge(monkeypatch, "never", **known)
    with pytest.raises(UnhealthyTopicError, match="3 things need a person"):
        run()


def test_a_misspelt_flag_and_another_cluster_are_refused(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="fail_on_critical must be true or false"):
        run(fail_on_critical="yes, please")
    connect(monkeypatch, "cluster-2")
    with pytest.raises(ClusterMismatchError):
        run()


def test_a_log_that_lost_what_an_earlier_run_has_read_is_critical(
    log: InProcessMetadataEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    monkeypatch.setattr(floored_log, "CATCH_UP_S", 0.0)
    (number,) = (number for number, end in log.high_water_marks().items() if end == 2)
    log.cut_off(number, 1)
    with pytest.raises(UnhealthyTopicError, match=rf"metadata partition {number} offset 1 .*LOST_RECORDS.*{number}@2"):
        run()
