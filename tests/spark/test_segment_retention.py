# SPDX-License-Identifier: Apache-2.0
"""The job as it is really run: ``spark-submit`` with Kafka's connector on the metadata topic of a real broker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import pyarrow.parquet as pq
import pyspark
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_rlmm.core.log.folded_topic import FoldedTopic
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.world.cluster_state import ListedTopic
from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT, RecordAges
from airflow_provider_rlmm.features.retention.spark.generations import FOLDED_ANEW_AFTER_MS
from airflow_provider_rlmm.features.retention.spark.package import build_py_files, kafka_connector_coordinates
from airflow_provider_rlmm.features.retention.spark.what_if_document import WHAT_IF_DOCUMENT, WhatIfDocument
from airflow_provider_rlmm.operators.task_folder import handed_over
from dev import ensure_spark_jars, tiering
from dev.broker import METADATA_TOPIC, LocalKafka
from dev.spark import SHORT_LIFE
from tests.integration.kafka_topics import config_of
from tests.spark.judged_cluster import DEAD, FULL, JOB, LIVE, SEGMENTS, TRIMMED, Cluster, cluster_with_orphans
from tests.spark.plain_evaluation import evaluate_plan, replay

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(1800)]

SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_with_orphans() as cluster:
        yield cluster


def submit(
    script: Path, folder: Path, *arguments: str, connector: bool = True, conf: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    jars = ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar")))
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[2]", "--py-files", str(build_py_files(folder / "py"))),
        *(
            "--driver-java-options",
            SHORT_LIFE,
            "--conf",
            "spark.ui.enabled=false",
        ),
        *(["--jars", jars] if connector else []),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        *(str(script), *arguments),
    ]
    # Neither the working directory nor PYTHONPATH leads to the package: the zip is all that the job has.
    settings = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""}
    # What the driver's Python writes, to either stream, arrives in spark-submit's standard output.
    return subprocess.run(
        command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, timeout=900, check=False
    )


def job_arguments(cluster: Cluster, folder: Path, output: Path, **changes: str) -> list[str]:
    listing = folder / "cluster_state.json"
    listing.write_text(cluster.state.to_json())
    properties = folder / "client.properties"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
    properties.write_text(f"client.id=plan\\\n ner\nsasl.jaas.config={login}\n")
    values = {
        "bootstrap-servers": cluster.kafka.bootstrap_servers,
        "kafka-properties": str(properties),
        "cluster-state": str(listing),
        "output": output.as_uri(),
        "plan-id": "plan-1",
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    return [word for name, value in values.items() for word in (f"--{name}", value)]


def test_plan_of_a_real_topic_equals_the_plain_evaluation(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "plan"
    now_ms = cluster.state.observed_at_ms
    pipe = tmp_path / "piped.properties"
    arguments = job_arguments(cluster, tmp_path, output, now_ms=str(now_ms), kafka_properties=str(pipe))
    with handed_over(pipe, (tmp_path / "client.properties").read_text()):
        done = submit(JOB, tmp_path, *arguments)
    assert done.returncode == 0, done.stdout

    records = cluster.records
    expected = evaluate_plan(records, json.loads(cluster.state.to_json()), now_ms, 259_200_000, 5)
    summary = read_plan(str(output))
    names = [name for name, _ in PLAN_COLUMNS]
    rows = [row for _, file in sorted(summary.files.items()) for row in pq.read_table(output / file.name).to_pylist()]
    assert rows == [{name: row[name] for name in names} for row in expected]

    reasons = [(row["topic"], row["partition"], row["reason"]) for row in expected]
    assert {r for r in reasons if r[0] == DEAD} == {(DEAD, 0, "ORPHANED"), (DEAD, 1, "ORPHANED")}
    assert reasons.count((TRIMMED, 0, "LOG_START_OFFSET")) == 2
    assert reasons.count((FULL, 0, "RETENTION_BYTES")) == SEGMENTS - 3
    assert {row["topic_id"] for row in expected if row["topic"] == DEAD} == {cluster.dead_topic_id.bytes}
    assert LIVE not in {row["topic"] for row in expected}

    # A busy broker may copy a segment twice.
    assert summary.known.segments == len(replay(records).segments) >= 4 * 2 * SEGMENTS
    orphans = sum(reason == "ORPHANED" for _, _, reason in reasons)
    assert summary.by_reason["ORPHANED"].segments == orphans >= 2 * SEGMENTS
    ends = {p: 1 + max((o for q, o, _ in records if q == p), default=-1) for p in range(5)}
    assert summary.read_until == ends
    assert (summary.cluster_id, summary.plan_id) == (cluster.kafka.cluster_id, "plan-1")
    assert (summary.quarantined, summary.unresolved, summary.refusals) == ({}, 0, ())
    assert DEAD not in tiering.topic_ids(cluster.kafka), "asking for a name creates no topic"
    assert SECRET not in done.stdout + done.stderr
    assert f"ORPHANED: {orphans} segments" in done.stdout


RUN_SEVERAL = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("job", sys.argv[1])
job = importlib.util.module_from_spec(spec)
spec.loader.exec_module(job)
print("statuses", [job.main(argv) for argv in json.loads(sys.argv[2])])
"""


def test_the_second_run_reads_only_what_is_new_and_tries_other_settings_over_all(
    cluster: Cluster, tmp_path: Path
) -> None:
    script, data_set = tmp_path / "run_several.py", tmp_path / "data"
    script.write_text(RUN_SEVERAL)
    now_ms, outputs = cluster.state.observed_at_ms, [tmp_path / name for name in ("alone", "first", "second")]
    argvs = [job_arguments(cluster, tmp_path, output, now_ms=str(now_ms)) for output in outputs]
    for argv in argvs[1:]:
        argv += ["--data-set", str(data_set)]
    setting = f"{LIVE}:retention.ms=0"
    for argv in (argvs[0], argvs[2]):
        argv += ["--what-if", setting]
    nobodys = [*argvs[2], "--what-if", "nobody:retention.ms=0"]
    anew = job_arguments(cluster, tmp_path, tmp_path / "anew", now_ms=str(now_ms + FOLDED_ANEW_AFTER_MS))
    anew += ["--data-set", str(data_set)]
    done = submit(script, tmp_path, str(JOB), json.dumps([*argvs, nobodys, anew]))
    assert "statuses [0, 0, 0, 1, 0]" in done.stdout, done.stdout

    alone, first, second = (read_plan(str(output)) for output in outputs)
    total = len(cluster.records)
    for summary, read_on_from, records in ((alone, None, total), (first, None, total), (second, 1, 0)):
        assert (summary.job["read_on_from"], summary.job["records"]) == (read_on_from, records)
        assert sum(summary.job["records_read"].values()) == records
        tries = () if summary is first else ("what-if",)
        assert set(summary.job["stage_milliseconds"]) == {"look", "read", "ask", "plan", *tries}
    assert [path.name for path in outputs[0].iterdir() if path.is_dir()] == [], "what nobody keeps is gone"
    assert alone.planned == first.planned == second.planned
    for name in (file.name for file in alone.files.values()):
        assert len({str(pq.read_table(output / name).to_pylist()) for output in outputs}) == 1
    assert "read 0 records since generation 1" in done.stdout
    assert "generation 1: reads the topic from its beginning: there is no generation yet" in done.stdout
    assert re.search(r"no plan: settings 'nobody:retention.ms=0': none of the \d+ topics of the listing", done.stdout)

    for summary, output in ((alone, outputs[0]), (second, outputs[2])):
        ages = RecordAges.from_json((output / AGES_DOCUMENT).read_text())
        assert Count.sum(ages.ages.values()) == summary.known, "what the generation had and what is new"
        assert ages.cluster_id == summary.cluster_id

    told = [WhatIfDocument.from_json((outputs[n] / WHAT_IF_DOCUMENT).read_text()) for n in (0, 2)]
    assert not (outputs[1] / WHAT_IF_DOCUMENT).exists()
    assert [document.generation for document in told] == [1, 2]
    assert told[0].tried == told[1].tried
    as_it_is, tried = told[1].tried
    assert (as_it_is.settings, tried.settings) == ("as it is", setting)
    expected = {reason: n for reason, n in first.by_reason.items() if reason != "ORPHANED"}
    assert as_it_is.by_reason == expected, "what topics have is what the plan has"
    assert [one.topic for one in tried.listed_topics] == [LIVE]
    assert tried.by_reason["RETENTION_MS"].segments >= 2 * SEGMENTS
    assert f"what if {setting}, estimated: " in done.stdout

    # A day later all is read anew, and is as it was; and what Spark has folded is what a reader of the log knows.
    assert "generation 3: reads the topic from its beginning: once a day; generation 2 is compared" in done.stdout
    third = read_plan(str(tmp_path / "anew"))
    assert (third.job["read_on_from"], third.job["records"]) == (None, total)
    with KafkaMetadataEventLog(config_of(cluster.kafka)) as log:
        own = TopicState(log, KafkaClusterTopics(config_of(cluster.kafka)), keep_finished=True)
        own.advance()
        expected_state = own.snapshot()
    folded = FoldedTopic(str(data_set), lambda: now_ms + FOLDED_ANEW_AFTER_MS).read(beyond=0)
    assert folded.state.digest() == expected_state.state.digest()
    assert (folded.identity, folded.next_offsets) == (expected_state.identity, expected_state.next_offsets)
    assert (folded.tails, folded.routed) == (expected_state.tails, expected_state.routed)
    assert (folded.gaps, folded.holes, folded.quarantined) == ((), (), ())


@pytest.mark.rare
def test_a_log_that_may_lack_records_is_refused_until_somebody_has_said_why_one_is_missing(
    cluster: Cluster, tmp_path: Path
) -> None:
    """One metadata partition holds the marker of a transaction and nothing else: its record was deleted."""
    gapped, compacted = "metadata-with-a-marker", "metadata-compacted"
    # As many partitions as the records come from: elsewhere they would lie in the wrong one.
    count = cluster.kafka.metadata_partitions
    topics = [NewTopic(gapped, count), NewTopic(compacted, count, config={"cleanup.policy": "compact"})]
    admin = AdminClient(cluster.kafka.client_config())
    for created in admin.create_topics(topics).values():
        created.result(30)
    # Ids of topics are random, so that any partition may hold none of the records.
    ((home, _),) = Counter(number for number, _, _ in cluster.records).most_common(1)
    values, other = [value for number, _, value in cluster.records if number == home][:5], (home + 1) % count
    written = [*((None, value, home) for value in values), (None, b"deleted", other)]
    _produce(cluster.kafka, gapped, written, **{"transactional.id": "somebody"})
    for deleted in admin.delete_records([TopicPartition(gapped, other, 1)]).values():
        deleted.result(30)
    _produce(cluster.kafka, compacted, [(b"key", value, home) for value in values])
    ids = tiering.topic_ids(cluster.kafka)
    listed = tuple(ListedTopic(ids[name], name, -1, -1, {}) for name in (gapped, compacted))
    state = replace(cluster.state, topics=(*cluster.state.topics, *listed))
    script, listings = tmp_path / "run_several.py", [tmp_path / name for name in ("seen.json", "explained.json")]
    script.write_text(RUN_SEVERAL)
    listings[0].write_text(state.to_json())
    listings[1].write_text(replace(state, explained_gaps=(HistoryGap(home, 5, 6), HistoryGap(other, 1, 2))).to_json())
    outputs = [tmp_path / name for name in ("first", "explained", "compacted")]
    argvs = [
        job_arguments(
            cluster, tmp_path, output, topic=topic, cluster_state=str(listing), data_set=str(tmp_path / topic)
        )
        for output, topic, listing in zip(outputs, (gapped, gapped, compacted), (*listings, listings[0]), strict=True)
    ]
    done = submit(script, tmp_path, str(JOB), json.dumps(argvs))
    assert "statuses [0, 0, 0]" in done.stdout, done.stdout
    plans = [read_plan(str(output)) for output in outputs]
    assert [str(plan.era).partition(":")[0] for plan in plans] == ["plain", "plain", "compacted"]
    first, explained, of_compacted = (plan.refusals for plan in plans)
    assert {r.kind for r in (*first, *explained)} == {RefusalKind.LOST_RECORDS}
    found = {(r.metadata_partition, r.offset): r for r in first}
    assert found.keys() == {(home, 6), (other, 2), (other, None)}
    assert f"metadata partition {home} has no record at offsets 5 to 5" in found[home, 6].why
    assert explained == (found[other, None],)
    assert "it begins at offset 1" in explained[0].why
    assert of_compacted[0].kind is RefusalKind.LOG_ERA
    assert "cleanup.policy is compact" in of_compacted[0].why


def _produce(
    kafka: LocalKafka, topic: str, records: list[tuple[bytes | None, bytes | None, int]], **settings: str
) -> None:
    """Produce records (key, value, partition), in one transaction where the settings name one."""
    producer = Producer(kafka.client_config(**settings))
    if settings:
        producer.init_transactions(30)
        producer.begin_transaction()
    for key, value, partition in records:
        producer.produce(topic, value, key, partition)
    if settings:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0


@pytest.fixture
def another() -> Iterator[LocalKafka]:
    """A second cluster."""
    with LocalKafka() as kafka:
        yield kafka


@pytest.mark.rare
def test_each_failure_is_one_clear_line(cluster: Cluster, another: LocalKafka, tmp_path: Path) -> None:
    script = tmp_path / "run_several.py"
    script.write_text(RUN_SEVERAL)
    slow = tmp_path / "slow.properties"
    slow.write_text("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
    patient = tmp_path / "patient.properties"
    patient.write_text("default.api.timeout.ms=8000\nrequest.timeout.ms=8000\n")
    nobody_first = {
        "bootstrap_servers": f"127.0.0.1:9,{cluster.kafka.bootstrap_servers}",
        "kafka_properties": str(patient),
    }
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(f"security.protocol={SECRET}\n")
    incomplete = tmp_path / "incomplete.json"
    without = tuple(t for t in cluster.state.topics if t.name != METADATA_TOPIC)
    incomplete.write_text(replace(cluster.state, topics=without).to_json())
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(replace(cluster.state, cluster_id="elsewhere").to_json())
    replaced = tmp_path / "replaced.json"
    other = ListedTopic(UUID(int=7), METADATA_TOPIC, -1, -1, {})
    replaced.write_text(replace(cluster.state, topics=(*without, other)).to_json())
    servers = f"{cluster.kafka.bootstrap_servers},{another.bootstrap_servers}"
    cases = [
        (
            {"bootstrap_servers": servers},
            f"'{another.cluster_id}'.* for another cluster; name the brokers of one cluster",
        ),
        ({"cluster_state": str(elsewhere)}, "cluster 'elsewhere' is expected, but"),
        ({"cluster_state": str(replaced)}, "AAAAAAAAAAAAAAAAAAAABw, and the topic that is read has"),
        ({"topic": "no-such-topic"}, "topic 'no-such-topic' does not exist"),
        (
            nobody_first | {"topic": "nowhere"},
            f"topic 'nowhere' does not exist on cluster '{cluster.kafka.cluster_id}'",
        ),
        ({"bootstrap_servers": "127.0.0.1:9", "kafka_properties": str(slow)}, "no answer .* from 127.0.0.1:9"),
        ({"kafka_properties": str(wrong)}, "Kafka's client refuses its properties"),
        ({"kafka_properties": "missing.properties"}, "missing.properties cannot be read"),
        ({"cluster_state": "missing.json"}, "missing.json cannot be read"),
        ({"cluster_state": str(incomplete)}, "not complete"),
        ({"min_age_ms": "1"}, "below the floor"),
    ]
    argvs = [job_arguments(cluster, tmp_path, tmp_path / "plan", **changes) for changes, _ in cases]
    done = submit(script, tmp_path, str(JOB), json.dumps(argvs))
    assert f"statuses {[1] * len(cases)}" in done.stdout, done.stdout
    lines = [line for line in done.stdout.splitlines() if "segment_retention ERROR" in line]
    for (_, message), line in zip(cases, lines, strict=True):
        assert re.search(message, line)
    assert SECRET not in done.stdout + done.stderr
    assert "no-such-topic" not in tiering.topic_ids(cluster.kafka)
    assert not (tmp_path / "plan").exists()


@pytest.mark.rare
def test_a_missing_connector_is_named(cluster: Cluster, tmp_path: Path) -> None:
    done = submit(JOB, tmp_path, *job_arguments(cluster, tmp_path, tmp_path / "plan"), connector=False)
    assert done.returncode == 1
    assert f"pass the Kafka connector with --packages {kafka_connector_coordinates()}, or its jars with" in done.stdout
