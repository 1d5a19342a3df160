# SPDX-License-Identifier: Apache-2.0
"""``rlmm read`` of a topic that a broker has copied, once the metadata topic is compacted: read, and not called whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from dev import tiering
from dev.broker import LocalKafka
from tests.integration.kafka_topics import delete_records, set_policy
from tests.integration.reading.world import COPIED, RecordWriter, await_copied, segments_of

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]


def test_what_is_named_is_read_beside_where_the_broker_says_that_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalKafka() as kafka:
        tip = TopicIdPartition(tiering.create_tiered_topic(kafka, "orders", 1, **COPIED), "orders", 0)
        RecordWriter(kafka, tip.topic).write(300, "lz4")
        await_copied(kafka, tip)
        with segments_of(kafka, tip) as segments:
            end = max(metadata.end_offset for metadata in segments.list_remote_log_segments(tip)) + 1

        def read() -> tuple[int, list[int], str]:
            where = ["--bootstrap-server", kafka.bootstrap_servers, "--storage", kafka.remote_dir.as_uri()]
            code = command.run(["read", tip.topic, "--json", *where, "--work-dir", str(tmp_path)])
            said = capsys.readouterr()
            return code, [json.loads(line)["offset"] for line in said.out.splitlines()], said.err

        code, whole, _ = read()
        assert (code, whole) == (ExitCode.DONE, [*range(end)])
        set_policy(kafka, METADATA_TOPIC, "compact")
        code, offsets, said = read()
        assert (code, offsets) == (ExitCode.NEEDS_A_PERSON, whole)
        assert "the metadata topic is compacted: its cleanup.policy is compact" in said
        assert "partition 0: read from offset 0 on; ListOffsets: it begins at offset 0" in said
        delete_records(kafka, tip.topic, 0, 3)
        code, _, said = read()
        assert code == ExitCode.NEEDS_A_PERSON
        assert "partition 0: read from offset 0 on; ListOffsets: it begins at offset 3" in said
