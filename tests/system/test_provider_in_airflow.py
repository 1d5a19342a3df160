# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import PlanFile, PlanSummary, plan_file_name
from dev.airflow import LocalAirflow

pytestmark = pytest.mark.system


def test_airflow_lists_the_provider(local_airflow: LocalAirflow) -> None:
    listed = json.loads(local_airflow.cli("providers", "list", "--output", "json"))
    assert [p["version"] for p in listed if p["package_name"] == "airflow-provider-rlmm"] == ["0.1.0"]


def test_the_connection_form_shows_its_fields(local_airflow: LocalAirflow) -> None:
    with local_airflow.client() as client:
        hooks = client.get("/ui/connections/hook_meta").json()
    (form,) = [hook for hook in hooks if hook["connection_type"] == "rlmm"]
    assert form["hook_name"] == "Kafka Remote Log Metadata"
    assert list(form["extra_fields"]) == [
        "kafka_conn_id", "storage_uri", "storage_conn_id", "layout", "key_prefix", "expected_cluster_id", "expected_root",
        "allow_writes", "scheduled_runs", "hold",
        "metadata_topic", "former_key_prefixes", "key_pattern", "key_suffixes", "plugin_settings", "storage_class", "prices",
        "allow_copy", "deletion_window", "objects_per_second", "sole_owner",
        "archive_uri", "archive_before_deletion", "archive_encrypted", "allow_catalogue", "clock_topic", "keep_snapshots",
        "snapshots_uri",
    ]  # fmt: skip
    assert form["extra_fields"]["allow_writes"]["value"] is False
    assert form["standard_fields"]["login"]["hidden"] is True


def test_testing_a_connection_says_what_is_wrong(local_airflow: LocalAirflow, work_dir: Path) -> None:
    extra = {"kafka_conn_id": "kafka_down", "storage_uri": f"file://{work_dir}/missing"}
    body = {"connection_id": "rlmm_down", "conn_type": "rlmm", "extra": json.dumps(extra)}
    with local_airflow.client() as client:
        answer = client.post("/api/v2/connections/test", json=body).json()
    assert answer["status"] is False
    assert "Writing is off." in answer["message"]
    assert "kafka_down" in answer["message"]
    assert f"{work_dir}/missing" in answer["message"]


@pytest.fixture(scope="module")
def linked_run(local_airflow: LocalAirflow) -> str:
    """A run of mapped tasks that push the names of documents."""
    run_id = local_airflow.trigger("linked_documents")
    assert local_airflow.wait("linked_documents", run_id, timeout=120) == "success"
    return run_id


def test_links_of_mapped_tasks_lead_to_guarded_pages(
    local_airflow: LocalAirflow, linked_run: str, work_dir: Path
) -> None:
    planned = Count(3, 30)
    summary = PlanSummary(
        plan_id="plan-1",
        cluster_id="cluster-1",
        created_at_ms=0,
        expires_at_ms=1,
        read_until={0: 10},
        known=Count(7, 70),
        by_reason={"ORPHANED": planned},
        by_metadata_partition={0: planned},
        quarantined={},
        unresolved=0,
        files={0: PlanFile.of(plan_file_name(0), 3, b"rows")},
    )
    (work_dir / "plan-1").mkdir()
    (work_dir / "plan-1" / "summary.json").write_text(summary.to_json())

    links = {
        name: local_airflow.link("linked_documents", linked_run, "work", name, map_index=1)
        for name in ("Plan", "Report")
    }
    assert links == {
        "Plan": f"{local_airflow.url}/rlmm/plans/plan-1",
        "Report": f"{local_airflow.url}/rlmm/reports/report-1",
    }

    assert httpx.get(links["Plan"]).status_code == 401
    assert httpx.get(links["Plan"], headers={"Authorization": "Bearer nonsense"}).status_code == 403
    with local_airflow.client("viewer") as viewer:
        page = viewer.get(links["Plan"])
        assert (page.status_code, "cluster-1" in page.text) == (200, True)
        assert viewer.get(links["Report"]).status_code == 404


def test_a_run_tells_what_it_did(local_airflow: LocalAirflow, linked_run: str) -> None:
    states = {
        (i["task_id"], i["map_index"]): i["state"] for i in local_airflow.task_instances("linked_documents", linked_run)
    }
    assert states == {("work", 0): "success", ("work", 1): "success"}
    assert local_airflow.xcom("linked_documents", linked_run, "work", map_index=0) == {"linked": 2}
    assert "Pushing xcom" in local_airflow.task_log("linked_documents", linked_run, "work", map_index=0)
