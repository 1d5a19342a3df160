# SPDX-License-Identifier: Apache-2.0
"""The command ``rlmm`` on a real broker with real orphans."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.overview.inventories import segments, topics
from airflow_provider_rlmm.overview.runs import history, progress
from dev import tiering
from dev.broker import LocalKafka, await_condition
from dev.roots import expected_root_of
from tests.scrub import scrub

pytestmark = pytest.mark.integration

PARTITIONS = 2
SEGMENTS = 4
OVERRIDES = ("--override", "short_min_absence", "--min-absence-ms", "0")


class Shell(NamedTuple):
    """A shell of somebody who has a cluster."""

    kafka: LocalKafka
    home: Path
    orphan: uuid.UUID

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> str:
        # Within this process: one of its own takes a second of processor time to start.
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environment(**environment), clear=True),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            ended = run(arguments)
        assert ended == code, f"{arguments}: {ended}\n{out.getvalue()}\n{err.getvalue()}"
        return (out if code in (0, 4) else err).getvalue()

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]

    def command(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).with_name("rlmm")), *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "RLMM_BOOTSTRAP_SERVER": self.kafka.client_config()["bootstrap.servers"],
            "RLMM_STORAGE_URI": self.kafka.remote_dir.as_uri(),
            "RLMM_EXPECTED_ROOT": expected_root_of(self.kafka.remote_dir),
            **more,
        }


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with LocalKafka() as kafka:
        for topic in ("living", "deleted"):
            tiering.create_tiered_topic(kafka, topic, PARTITIONS)
            tiering.produce_until_remote(kafka, topic, SEGMENTS)
        yield Shell(kafka, tmp_path_factory.mktemp("home"), tiering.provoke_scenario_b(kafka, "deleted"))


def test_topics_says_what_the_cluster_has_and_what_it_lacks(shell: Shell) -> None:
    found = {row["topic"]: row for row in shell.lines("topics")}
    assert {name: row["presence"] for name, row in found.items()} == {"living": "present", "deleted": "absent"}
    assert found["deleted"]["topic_id"] == kafka_uuid_str(shell.orphan)
    assert found["deleted"]["partitions"] == PARTITIONS
    assert found["deleted"]["segments"] >= PARTITIONS * SEGMENTS
    assert found["deleted"]["states"] == {"COPY_SEGMENT_FINISHED": found["deleted"]["segments"]}
    table = shell("topics")
    assert kafka_uuid_str(shell.orphan) in table
    assert "absent" in table


def test_the_spark_job_is_told_every_topic_and_its_limits(shell: Shell) -> None:
    file = shell.home / "spark" / "cluster-state.json"
    shell("cluster-state", "--cluster-id", shell.kafka.cluster_id, "--output", str(file))
    state = ClusterState.from_json(file.read_text())
    listed = {topic.name: topic for topic in state.topics}
    assert {name: topic.topic_id for name, topic in listed.items()} == tiering.topic_ids(shell.kafka)
    assert "deleted" not in listed
    assert sorted(listed["living"].log_start_offsets) == list(range(PARTITIONS))
    assert state.cluster_id == shell.kafka.cluster_id
    assert "expected 'another'" in shell("cluster-state", "--cluster-id", "another", code=1)


def test_orphans_are_found_with_the_brokers_address_alone(shell: Shell) -> None:
    found = shell.lines("orphans")
    assert [(row["topic"], row["partition"]) for row in found] == [("deleted", 0), ("deleted", 1)]
    assert all(row["segments"] >= SEGMENTS and row["status"] == "NEXT_RUN" for row in found)
    assert "not marked yet" in shell("orphans")


def test_a_survey_leaves_for_the_pages_what_the_commands_list(shell: Shell) -> None:
    told = shell.json("survey")
    generation = Path(told["inventory"])
    work, folder = str(generation.parent.parent), generation.parent.name
    assert folder == cluster_folder(shell.kafka.cluster_id)
    rows = {row.topic: row for row in topics(work, folder).rows}
    assert {name: row.state for name, row in rows.items()} == {"living": "LIVING", "deleted": "ORPHANED"}
    assert rows["deleted"].topic_id == kafka_uuid_str(shell.orphan)
    orphans = shell.lines("orphans")
    assert rows["deleted"].segments == told["orphaned"]["segments"] == sum(row["segments"] for row in orphans)
    assert rows["deleted"].bytes == told["orphaned"]["bytes"] == sum(row["bytes"] for row in orphans)
    for partition in range(PARTITIONS):
        listed = shell.lines("segments", "--topic", "deleted", "--partition", str(partition))
        found = segments(work, folder, rows["deleted"].topic_id, partition).rows
        assert [(row.segment_id, row.start_offset, row.end_offset, row.state) for row in found] == [
            (row["segment_id"], row["start_offset"], row["end_offset"], row["state"]) for row in listed
        ]
        assert all(row.leader_epochs for row in found)


def test_a_run_may_be_for_some_topics_only(shell: Shell) -> None:
    orphans = shell.lines("orphans")
    assert shell.lines("orphans", "--only", "del*") == orphans
    assert shell.lines("orphans", "--only", "living") == []
    assert "knows a topic of that name, pattern or id; did you mean 'deleted'? Nothing was done" in shell(
        "orphans", "--only", "delete", code=1
    )
    assert "only names no topic: write *" in shell("orphans", "--only", "", code=1)

    marked = {name: shell.json("clean", "--only", name)["totals"] for name in ("living", "deleted")}
    assert {name: totals["would_mark_partitions"] for name, totals in marked.items()} == {
        "living": 0,
        "deleted": PARTITIONS,
    }
    plan = shell.json("plan", "--only", "living")
    assert (plan["only"], plan["known"]["segments"]) == (["living"], shell.json("plan")["known"]["segments"])

    whole, narrowed = shell.json("survey"), shell.json("survey", "--only", "living")
    assert (narrowed["topics"], narrowed["orphaned"]["segments"]) == (1, 0)
    assert Path(narrowed["inventory"]).parent.name == "survey", "it stays in the folder of its run"
    work = str(Path(whole["inventory"]).parent.parent)
    assert len(topics(work, cluster_folder(shell.kafka.cluster_id)).rows) == 2, "pages show the whole cluster"


def test_segments_and_events_of_a_topic(shell: Shell) -> None:
    segments = shell.lines("segments", "--topic", "deleted", "--partition", "1")
    assert {row["topic_id"] for row in segments} == {kafka_uuid_str(shell.orphan)}
    assert [row["start_offset"] for row in segments] == sorted(row["start_offset"] for row in segments)
    assert shell.lines("segments", "--topic", kafka_uuid_str(shell.orphan), "--partition", "1") == segments
    assert shell.lines("segments", "--topic", "deleted", "--state", "DELETE_SEGMENT_STARTED") == []
    assert len(shell.lines("segments", "--limit", "3")) == 3
    events = shell.lines("events", "--topic", "deleted")
    assert len(events) == 2 * sum(row["segments"] for row in shell.lines("orphans"))
    assert {event["event"] for event in events} == {"RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"}
    first = events[0]
    again = ("--from-offset", str(first["offset"]), "--to-offset", str(first["offset"] + 1))
    assert shell.lines("events", "--metadata-partition", str(first["metadata_partition"]), *again) == [first]


def test_the_trail_of_a_segment_is_its_events_in_order(shell: Shell) -> None:
    (segment, *_) = shell.lines("segments", "--topic", "deleted")
    trail = shell.lines("trail", "deleted", str(segment["partition"]), "--segment", segment["segment_id"])
    assert [event["state"] for event in trail] == ["COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"]
    assert "COPY_SEGMENT_FINISHED" in shell("trail", "deleted", str(segment["partition"]))


def test_check_and_doctor_find_nothing_wrong(shell: Shell) -> None:
    found = shell.json("check")
    assert found["good"], found
    assert any(shell.kafka.cluster_id in finding["finding"] for finding in found["findings"])
    assert "belongs to this cluster" in shell("check")
    diagnosis = shell.json("doctor")
    assert (diagnosis["cluster_id"], diagnosis["critical"]) == (shell.kafka.cluster_id, 0)
    assert diagnosis["records"] == len(shell.lines("events"))
    assert diagnosis["counts"] == {"LEADERS_UNTOLD": 1}, "nobody has asked the leaders"
    assert [(row["topic"], row["unresolved"]) for row in shell.lines("retention")] == [("living", 0)]
    assert "Nothing is wrong." in shell("doctor")


TOPIC = {"topic", "topic_id", "presence", "partitions", "segments", "bytes", "month_micros", "states", "unsized"}
ORPHAN = {
    "topic", "topic_id", "partition", "metadata_partition", "segments", "bytes", "deletion", "observed_ms", "status", "why",
    "month_micros",
}  # fmt: skip
SEGMENT = {
    "metadata_partition", "topic_id", "topic", "partition", "segment_id", "start_offset", "end_offset", "max_timestamp_ms",
    "broker_id", "event_timestamp_ms", "segment_size_in_bytes", "state", "segment_leader_epochs", "txn_idx_empty",
    "added_offset", "event_offset",
}  # fmt: skip
EVENT = {
    "metadata_partition", "offset", "timestamp_ms", "event", "state", "topic_id", "topic", "partition", "segment_id",
    "broker_id", "event_timestamp_ms",
}  # fmt: skip
COPY = {
    "start_offset",
    "end_offset",
    "max_timestamp_ms",
    "segment_size_in_bytes",
    "segment_leader_epochs",
    "txn_idx_empty",
}
DOCTOR = {
    "cluster_id", "examined_at_ms", "read_until", "records", "segments", "critical", "counts", "findings", "recoveries",
    "explanations", "era", "preflight",
}  # fmt: skip
REPORT = {
    "format_version", "report_id", "plan_id", "cluster_id", "created_at_ms", "dry_run", "stopped", "deletion", "needs_person",
    "acknowledged", "archive", "waiting", "totals", "not_marked", "not_planned", "metadata_partitions", "report", "era",
    "price", "early", "marked", "out_of_time",
}  # fmt: skip


def test_what_scripts_read_has_the_fields_that_it_always_had(shell: Shell) -> None:
    """A script relies on them: what changes here is a new version of the package."""
    for command, fields in (("topics", TOPIC), ("orphans", ORPHAN), ("segments", SEGMENT)):
        rows = shell.lines(command)
        assert rows, command
        assert all(row.keys() == fields for row in rows), (command, rows[0])
    for command in (("events", "--topic", "deleted"), ("trail", "deleted")):
        fields = {event["event"]: event.keys() for event in shell.lines(*command)}
        assert fields == {"RemoteLogSegmentMetadata": EVENT | COPY, "RemoteLogSegmentMetadataUpdate": EVENT}
    assert shell.json("doctor").keys() == DOCTOR
    assert shell.json("check").keys() == {"good", "findings"}
    assert shell.json("snapshot").keys() == {"snapshot", "segments", "records_read", "records_known", "next_offsets"}
    assert {"plan_id", "by_metadata_partition", "waiting", "refusals", "root", "clock", "plan"} <= shell.json(
        "plan"
    ).keys()
    assert shell.json("clean").keys() == REPORT
    assert {"scrub_id", "classes", "topics", "planned", "deletion", "month_micros", "scrub"} <= shell.json(
        "scrub"
    ).keys()


def test_a_snapshot_spares_the_next_command_the_reading(shell: Shell) -> None:
    first = shell.json("snapshot")
    assert Path(first["snapshot"]).is_file()
    second = shell.json("snapshot")
    assert second["records_read"] == 0
    assert second["segments"] == first["segments"]


def test_without_execute_nothing_is_written_and_nothing_deleted(shell: Shell) -> None:
    events, files = shell.lines("events"), tiering.remote_files(shell.kafka, shell.orphan)
    plan = shell.json("plan")
    assert Path(plan["plan"], "summary.json").is_file()
    report = shell.json("clean")
    assert report["dry_run"]
    said = shell("clean")
    assert "would be marked now" in said
    assert "may be deleted by a run" not in said
    assert shell.lines("events") == events
    assert tiering.remote_files(shell.kafka, shell.orphan) == files


def test_the_cluster_must_be_named_by_whoever_deletes(shell: Shell) -> None:
    said = shell("clean", "--execute", code=2)
    assert "--cluster-id" in said
    said = shell("clean", "--execute", "--cluster-id", "another", code=1)
    assert shell.kafka.cluster_id in said


def test_clean_interrupted_midway_is_gone_on_with_by_the_next_run(shell: Shell) -> None:
    """Ctrl-C between two batches; afterwards nothing of the deleted topic is left and the living one is whole."""
    execute = ("--execute", "--cluster-id", shell.kafka.cluster_id, *OVERRIDES)
    living = tiering.remote_files(shell.kafka, tiering.topic_ids(shell.kafka)["living"])
    marked = shell.json("clean", *execute, "--max-segments-this-run", "1")
    assert marked["totals"]["partitions_marked"] == PARTITIONS
    before = tiering.remote_files(shell.kafka, shell.orphan)
    slow = shell.command("clean", *execute, "--batch-segments", "1", "--objects-per-second", "5")
    with subprocess.Popen(
        slow, env=shell.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        await_condition(
            lambda: len(tiering.remote_files(shell.kafka, shell.orphan)) < len(before), "the first object is gone", 120
        )
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "interrupted" in said
    left = tiering.remote_files(shell.kafka, shell.orphan)
    assert left, "it was to be interrupted midway"
    report = shell.json("clean", *execute)
    assert report["totals"]["partitions_finished"] == PARTITIONS, report
    assert report["needs_person"] == []
    assert tiering.remote_files(shell.kafka, shell.orphan) == frozenset()
    assert tiering.remote_files(shell.kafka, tiering.topic_ids(shell.kafka)["living"]) >= living
    assert shell.lines("orphans") == []
    work = str(Path(shell.json("survey")["inventory"]).parent.parent)
    kept = history(work, cluster_folder(shell.kafka.cluster_id))
    # The interrupted run has left none.
    assert [(run.outcome.value, run.dry_run, run.connection) for run in kept] == [("success", False, "rlmm")] * 2
    assert kept[-1].deleted.segments == report["totals"]["segments_deleted"]
    assert sum(task.partitions_done for task in progress(work, kept[-1].artifact).tasks) == PARTITIONS
    assert [e["state"] for e in shell.lines("trail", "deleted", "0") if "segment_id" not in e] == [
        "DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED",
    ]  # fmt: skip
    found = shell.json("scrub")
    assert (found["planned"]["objects"], found["deletion"]) == (0, None)
    assert scrub(shell.kafka) == []


def runs_of_this_month(shell: Shell) -> int:
    """How many runs have deleted something, by the survey."""
    (count,) = re.findall(r"^reclaimed this month: .* by (\d+) runs? since", shell("survey"), re.MULTILINE)
    return int(count)


def test_a_scrub_deletes_what_a_finished_segment_has_left_with_execute_only(shell: Shell) -> None:
    """As a changed prefix or a late upload leaves it: the log says finished, and an object is there."""
    (segment, *_) = [e for e in shell.lines("trail", "deleted", "0") if e["state"] == "DELETE_SEGMENT_FINISHED"]
    (start,) = {
        e["start_offset"]
        for e in shell.lines("trail", "deleted", "0", "--segment", segment["segment_id"])
        if "start_offset" in e
    }
    folder = shell.kafka.remote_dir / "kafka-tiered-storage" / f"deleted-0-{kafka_uuid_str(shell.orphan)}"
    left = folder / f"{start:020d}-{segment['segment_id']}.log"
    folder.mkdir(exist_ok=True)
    left.write_bytes(b"left")
    before = runs_of_this_month(shell)
    assert shell.json("scrub", code=0)["planned"]["objects"] == 1
    assert left.exists()
    found = shell.json("scrub", "--execute", "--cluster-id", shell.kafka.cluster_id)
    assert found["deletion"]["deleted"]["FINISHED"]["objects"] == 1, found["deletion"]
    assert not left.exists()
    assert scrub(shell.kafka) == []
    assert runs_of_this_month(shell) == before + 1


def test_wrong_input_of_each_kind_is_one_line_with_the_remedy(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # In this process: each of them would take two seconds to start.
    for name, value in shell.environment().items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "config.toml"
    config.write_text("allow_writes = true\n")
    cases = [
        (("topics", "--bootstrap-server", "127.0.0.1:1"), 3, "Connection refused"),
        (("topics", "--metadata-topic", "nowhere"), 1, "nowhere"),
        (("topics", "--metadata-topic", "a/b"), 1, "--metadata-topic"),
        (("topics", "--command-config", str(tmp_path / "none")), 1, "cannot be read"),
        (("topics", "--config", str(config)), 1, "--execute"),
        (("events", "--metadata-partition", "99"), 1, "metadata partition 99"),
        (("events", "--from-offset", "3"), 2, "--metadata-partition"),
        (("trail", "deleted", "x"), 2, "PARTITION"),
        (("trail", "deleted", "--segment", "x"), 2, "Kafka id"),
        (("decode", "zz!"), 2, "neither hexadecimal nor base64"),
        (("decode", "00ff"), 1, "RemoteLogMetadataSerde"),
        (("clean", "--min-absence-ms", "5"), 1, "short_min_absence"),
        (("clean", "--max-share", "2"), 1, "--max-share"),
        (("clean", "--override", "everything"), 2, "everything"),
        (("clean", "--store-option", "x"), 2, "NAME=VALUE"),
        (("clean", "--storage", "s3://u:s3cr3t@bucket"), 1, "--storage"),
        (("clean", "--storage", "/no/scheme"), 1, "--storage"),
        (("clean", "--layout", "unknown"), 1, "layout"),
        (("clean", "--hold", "a/b"), 1, "hold entry"),
        (("clean", "--acknowledgements", str(tmp_path / "none")), 1, "--acknowledgements"),
        (("plan", "--max-segments-this-run", "0"), 2, "--max-segments-this-run"),
        (("unknown",), 2, "unknown"),
    ]
    for arguments, code, part in cases:
        assert (run(list(arguments)), arguments) == (code, arguments)
        said = capfd.readouterr().err
        assert part in said, (arguments, said)
        assert "Traceback" not in said
        assert "s3cr3t" not in said
