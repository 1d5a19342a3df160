# SPDX-License-Identifier: Apache-2.0
"""A principal that may not see a deleted topic is never told that nothing of it is left: on a real broker's authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC
from tests.integration.acls import Acl, allow_exactly

pytestmark = [pytest.mark.integration, pytest.mark.manager]

USER = "principal"
LIVING, ORPHANED = "orders", "gone"
SEGMENTS = 5
NOTHING_OF_THE_TOPIC: tuple[Acl, ...] = (
    (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.READ),
    (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, LIVING, AclOperation.DESCRIBE),
)
"""The first principal sees the living topic, the second one no topic of users at all."""
NO_TOPIC = NOTHING_OF_THE_TOPIC[:2]
EVERYTHING = (*NO_TOPIC, (ResourceType.TOPIC, "*", AclOperation.DESCRIBE))


@pytest.fixture(scope="module")
def kafka() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka({USER: "not-secret"}) as broker:
        for topic, segments in ((LIVING, 2), (ORPHANED, SEGMENTS)):
            tiering.create_tiered_topic(broker, topic, 1)
            tiering.produce_until_remote(broker, topic, segments)
        tiering.provoke_scenario_b(broker, ORPHANED)
        yield broker


@pytest.fixture
def shell(kafka: AuthorizedKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    login = kafka.login(USER)
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol={login['security.protocol']}\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{login["sasl.password"]}";\n'
    )

    def run(*words: str) -> tuple[int, str]:
        given = ("--bootstrap-server", login["bootstrap.servers"], "--command-config", str(properties))
        code = command.run([*words, *given, "--work-dir", str(tmp_path / "work"), "--json"])
        return code, capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("rights", "topics"), [(NOTHING_OF_THE_TOPIC, {ORPHANED}), (NO_TOPIC, {ORPHANED, LIVING})], ids=["one", "all"]
)
def test_what_a_principal_may_not_see_is_unseen_and_red(
    kafka: AuthorizedKafka,
    shell: Any,
    rights: tuple[Acl, ...],
    topics: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allow_exactly(kafka, USER, rights)
    code, out = shell("orphans")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 4
    assert {(row["topic"], row["status"]) for row in rows} == {(topic, "UNSEEN") for topic in topics}
    assert all(row["segments"] and row["bytes"] and "DESCRIBE" in row["why"] for row in rows)
    code, out = shell("survey")
    totals = json.loads(out)
    assert (code, totals["orphaned"]["segments"], totals["unseen_topics"]) == (4, 0, len(topics))
    assert totals["unseen"]["segments"] == sum(row["segments"] for row in rows)
    # The task says it, and does not fail.
    for conn_id, conn_type, extra in (
        ("KAFKA_DEFAULT", "kafka", kafka.login(USER)),
        ("RLMM_DEFAULT", "rlmm", {"kafka_conn_id": "kafka_default"}),
    ):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps({"conn_type": conn_type, "extra": extra}))
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "airflow"))
    run = SimpleNamespace(dag_id="dag", run_id="run", start_date=datetime.now(UTC))
    counts = SurveyRemoteLogOperator(task_id="survey", dry_run_only=True).execute({"dag_run": run})  # type: ignore[typeddict-item]
    assert (counts["orphaned_segments"], counts["unseen_segments"]) == (0, totals["unseen"]["segments"])


def test_with_the_right_the_same_answers_are_whole_and_green(kafka: AuthorizedKafka, shell: Any) -> None:
    allow_exactly(kafka, USER, EVERYTHING)
    code, out = shell("orphans")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, {(row["topic"], row["status"]) for row in rows}) == (0, {(ORPHANED, "NEXT_RUN")})
    code, out = shell("survey")
    totals = json.loads(out)
    assert (code, totals["unseen_topics"]) == (0, 0)
    assert totals["orphaned"]["segments"] == sum(row["segments"] for row in rows) > 0
