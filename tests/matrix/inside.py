# SPDX-License-Identifier: Apache-2.0
"""
What a cell of the matrix runs with the Python of its environment: a copy of this file beside a copy of ``dev``.

The package is the one that was installed from the wheel: nothing else of the checkout is on the path. It prints one JSON
document last, and ends with an error at the first thing that is not as it should be.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import airflow_provider_rlmm
from airflow_provider_rlmm.provider_info import get_provider_info
from airflow_provider_rlmm.resources import dags_folder
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.demo import connections, run_cleaner, run_retention
from dev.spark import local_spark_env

DAGS = [
    "remote_log_cleaner", "remote_log_contents", "remote_log_doctor", "remote_log_retention", "remote_storage_scrub",
]  # fmt: skip
SHOWN = ("apache-airflow", "apache-airflow-task-sdk", "pyspark", "pyarrow", "numpy", "confluent-kafka", "obstore")
PARTITIONS, SEGMENTS = 3, 5
AIRFLOW = tuple(int(part) for part in version("apache-airflow").split(".")[:2])
FORMS_OF_PROVIDER_INFO = (3, 2)


def main() -> dict[str, Any]:
    """Return the versions that were installed, what was seen, and how long each step took, in seconds."""
    package = Path(airflow_provider_rlmm.__file__)
    expect(Path(sys.prefix) in package.parents, f"{package} is not the installed package")
    seen: dict[str, Any] = {"versions": {name: version(name) for name in SHOWN}, "seconds": {}}
    steps: dict[str, Callable[[], Any]] = {"provider": list_provider, "parse": parse_dags, "job": run_main_job}
    for name, step in steps.items():
        started = time.monotonic()
        seen[name] = step()
        seen["seconds"][name] = round(time.monotonic() - started)
    return seen


def expect(condition: bool, otherwise: str) -> None:
    """End the program with a message unless a condition holds."""
    if not condition:
        sys.exit(otherwise)


def list_provider() -> str:
    """Return the version of the provider that Airflow lists."""
    command = [sys.executable, "-m", "airflow", "providers", "list", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stdout + done.stderr)
    providers = {provider["package_name"]: provider["version"] for provider in json.loads(done.stdout)}
    expect(
        "airflow-provider-rlmm" in providers, f"Airflow does not list the provider: {sorted(providers)}\n{done.stderr}"
    )
    return str(providers["airflow-provider-rlmm"])


def parse_dags() -> list[str]:
    """Return the ids of the package's DAGs."""
    try:
        module = import_module("airflow.dag_processing.dagbag")
    except ModuleNotFoundError:
        module = import_module("airflow.models.dagbag")
    bag = module.DagBag(dag_folder=dags_folder(), safe_mode=False)
    expect(not bag.import_errors, f"DAG files cannot be imported: {bag.import_errors}")
    expect(sorted(bag.dags) == DAGS, f"these DAGs were found: {sorted(bag.dags)}")
    return sorted(bag.dags)


def run_main_job() -> dict[str, Any]:
    """Orphans of a real broker, found by Spark and deleted by the cleaner, both under a scheduler."""
    with tempfile.TemporaryDirectory(prefix="rlmm-matrix-run-") as folder, LocalKafka(Path(folder) / "kafka") as kafka:
        alive = tiering.create_tiered_topic(kafka, "orders", 2)
        gone = tiering.create_tiered_topic(kafka, "clickstream", PARTITIONS)
        tiering.produce_until_remote(kafka, "orders", 2)
        tiering.produce_until_remote(kafka, "clickstream", SEGMENTS)
        tiering.provoke_scenario_b(kafka, "clickstream")
        orphans, living = tiering.remote_files(kafka, gone), tiering.remote_files(kafka, alive)
        expect(bool(orphans and living), "the broker left no orphans, or nothing else")
        planned, totals = run_dags(kafka, Path(folder))
        wanted = PARTITIONS * SEGMENTS
        expect(planned["orphaned"] == wanted, f"Spark planned {planned}, not {wanted} orphaned segments")
        expect(totals["segments_deleted"] == wanted, f"the cleaner deleted {totals}, not {wanted} segments")
        left = set(tiering.remote_listing(kafka)) & orphans
        expect(not left, f"{len(left)} objects of the deleted topic are left: {sorted(left)[:5]}")
        lost = living - tiering.remote_files(kafka, alive)
        expect(not lost, f"{len(lost)} objects of the living topic are gone: {sorted(lost)[:5]}")
        return {
            "segments": totals["segments_deleted"],
            "objects": totals["objects_deleted"],
            "doctor": ask_doctor(kafka),
        }


def run_dags(kafka: LocalKafka, work: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the retention DAG planned and what the cleaner DAG deleted."""
    env = {"AIRFLOW__RLMM__WORK_URI": str(work / "artifacts"), **local_spark_env(work / "spark")}
    home, dags = work / "airflow", Path(dags_folder())
    with LocalAirflow(home, dags_folder=dags, connections=connections(kafka), env=env) as airflow:
        planned = run_retention(airflow)
        run_id = run_cleaner(airflow, planned["plan"])
        look_at_the_ui(airflow, run_id)
        return planned, airflow.xcom("remote_log_cleaner", run_id, "report")


def look_at_the_ui(airflow: LocalAirflow, run_id: str) -> None:
    """The report has its page, and the connection its fields: those that provider info names, from Airflow 3.2 on."""
    report = airflow.link("remote_log_cleaner", run_id, "report", "Report")
    with airflow.client("viewer") as viewer:
        page = viewer.get(report)
    expect(page.status_code == 200, f"{report}: {page.status_code} {page.text}")
    with airflow.client() as admin:
        forms = {form["connection_type"]: form for form in admin.get("/ui/connections/hook_meta").json()}
    named = list(get_provider_info()["connection-types"][0]["conn-fields"])
    wanted = named if AIRFLOW >= FORMS_OF_PROVIDER_INFO else []
    shown = list(forms["rlmm"]["extra_fields"] or {})
    expect(shown == wanted, f"the connection form has the fields {shown}, not {wanted}")


def ask_doctor(kafka: LocalKafka) -> str:
    """Run the command line on the cleaned topic, where the wheel has one."""
    command = Path(sys.executable).with_name("rlmm")
    if not command.exists():
        return "the wheel has no command rlmm"
    words = [str(command), "doctor", "--bootstrap-server", kafka.bootstrap_servers]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"rlmm doctor: {done.returncode}\n{done.stdout}{done.stderr}")
    return "ok"


if __name__ == "__main__":
    print(json.dumps(main()))
