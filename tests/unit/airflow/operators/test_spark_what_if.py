# SPDX-License-Identifier: Apache-2.0
"""Other retention settings as an argument of the operator that runs the Spark job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan_files import write_document
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.spark.what_if import AS_LISTED, Scenario, WhatWouldGo
from airflow_provider_rlmm.features.retention.spark.what_if_document import WHAT_IF_DOCUMENT, WhatIfDocument
from airflow_provider_rlmm.operators.retention import SegmentRetentionOperator
from airflow_provider_rlmm.settings import artifact_uri
from tests.spark_jars import connector_jar
from tests.unit.airflow.operators.test_operators import cluster, connect, context, observed, work  # noqa: F401  # fixtures

SETTINGS = "ali*:retention.ms=0"


def test_other_settings_are_told_to_the_job_and_what_it_says_of_them_is_in_the_xcom(
    observed: ClusterState,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    commands: list[list[str]] = []
    generation = Generation(3, "cluster-1", "id", 1, 1, 1, {}, PLAIN_ERA.told())
    counts = {"alive": Count(2, 2**30)}
    found = [
        WhatWouldGo(AS_LISTED, {}, {}),
        WhatWouldGo(Scenario.parse(SETTINGS), {"RETENTION_MS": counts["alive"]}, counts),
    ]
    document = WhatIfDocument.of(generation, found, evaluated_at_ms=2, price_micros=23_000)

    def submit(hook: Any, application: str) -> None:
        commands.append(hook._build_spark_submit_command(application))
        write_document(artifact_uri("dag.run"), WHAT_IF_DOCUMENT, document.to_json())

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setenv("AIRFLOW__RLMM__PRICE_PER_GB_MONTH", "0.023")
    jars = connector_jar(tmp_path)
    for what_if in ([SETTINGS, SETTINGS], f'["{SETTINGS}"]'):
        ctx = context()
        SegmentRetentionOperator(task_id="evaluate", jars=jars, what_if=what_if).execute(ctx)
        words = commands.pop()
        assert words[words.index("--what-if") :] == ["--what-if", SETTINGS, "--price-micros", "23000"]
        told = ctx["ti"].pushed["what_if"]
        assert told["document"] == f"{artifact_uri('dag.run')}/what-if.json"
        assert [one["segments"] for one in told["tried"]] == [0, 2]
        assert told["tried"][1]["saved_micros"] == 23_000
    connect(monkeypatch, prices={"GLACIER_IR": {"per_gb_month": "0.004"}})
    SegmentRetentionOperator(task_id="evaluate", jars=jars, what_if=[SETTINGS]).execute(context())
    assert commands.pop()[-2:] == ["--price-micros", "4000"]
    ctx = context()
    SegmentRetentionOperator(task_id="evaluate", jars=jars, what_if="[]").execute(ctx)
    assert not {"--what-if", "--price-micros"} & set(commands.pop())
    assert "what_if" not in ctx["ti"].pushed
    with pytest.raises(ConfigurationError, match=r"none of the 2 topics of the listing is called 'gone-\*'"):
        SegmentRetentionOperator(task_id="evaluate", jars=jars, what_if=["gone-*:retention.ms=1"]).execute(context())
    assert commands == [], "nothing is started for a topic that nobody has"
