# SPDX-License-Identifier: Apache-2.0
"""
A disk copied into a layout that only a pattern describes, by the command, and handed to a broker with a plugin that has it.

The pattern has all at once: a salt, ids as UUIDs, least widths, the end offset, and a folder for each segment.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.layouts import LayoutOptions, layout_named
from dev import ensure_java_classes, tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from tests.integration.copying.adopting import await_all_remote, enable_copying, read_everything
from tests.integration.copying.copies import segments_of
from tests.integration.copying.copy_command import CopyCommand
from tests.integration.copying.world import World, living_topic, make_world, not_copied_topic, snapshot_of
from tests.integration.copying.writing import TIMEOUT_S, Record
from tests.scrub import scrub

pytestmark = [pytest.mark.integration, pytest.mark.copying]

TOPIC = "uncopied"
PLACE = "warm/"
PATTERN = (
    PLACE + "{md5(topic,'-',partition):4}/{topic}/{topic_id:uuid}/{partition:05}/{end_offset:020}_{segment_id:uuid}"
)
FILES = {
    "/log": "log",
    "/index": "offset",
    "/timeindex": "timestamp",
    "/snapshot": "producer_snapshot",
    "/epochs": "leader_epoch",
    "/txnindex?": "transaction",
}
"""Suffix, with ``?`` where not every segment has it → which file it holds."""


class TemplateKafka(LocalKafka):
    """A broker whose plugin, ``dev/java/TemplateKeysRemoteStorageManager.java``, lays out its objects by that pattern."""

    def __init__(self) -> None:
        plugin = {"remote.log.storage.manager.class.name": "TemplateKeysRemoteStorageManager"}
        super().__init__(properties=plugin, class_path=[ensure_java_classes()])
        self.remote_root = self.remote_dir

    def remote_objects(self) -> dict[str, int]:
        """See :meth:`LocalKafka.remote_objects`, without what this package keeps there."""
        return {key: size for key, size in super().remote_objects().items() if key.startswith(PLACE)}


def storage_of(kafka: LocalKafka) -> dict[str, str]:
    """Return the storage as a person would set it."""
    return {
        "RLMM_STORAGE_URI": kafka.remote_dir.as_uri(),
        "RLMM_LAYOUT": "template",
        "RLMM_KEY_PATTERN": PATTERN,
        "RLMM_KEY_SUFFIXES": ", ".join(f"{suffix}={file}" for suffix, file in FILES.items()),
        "RLMM_EXPECTED_ROOT": expected_root_of(kafka.remote_dir, PLACE),
    }


def read_by_command(kafka: LocalKafka, home: Path, level: str) -> list[dict[str, Any]]:
    """Return what ``rlmm read`` reads of the topic: out of remote storage alone."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("rlmm")), "read", TOPIC, "0", "--json", "--isolation-level", level],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(home), "RLMM_BOOTSTRAP_SERVER": kafka.bootstrap_servers, **storage_of(kafka)},
    )
    assert done.returncode == ExitCode.DONE, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_read(read: Sequence[dict[str, Any]], records: Sequence[Record]) -> None:
    """Check that it is what a consumer has read, up to where nothing is copied yet."""
    told = [
        (r["offset"], *(None if r[part] is None else base64.b64decode(r[part]) for part in ("key", "value")))
        for r in read
    ]
    assert len(told) > 100
    assert told == [(offset, key, value) for offset, _, key, value, _ in records[: len(told)]]


def hand_over(kafka: LocalKafka, world: World, before: dict[str, list[Record]]) -> None:
    """Let the broker go on behind our copies, restart it without its own segments, and see it serve every record."""
    enable_copying(kafka, TOPIC)
    world.open_transaction.commit_transaction(TIMEOUT_S)
    world.writer.write(90)
    await_all_remote(kafka, world.tip)
    kafka.restart()
    after = read_everything(kafka, TOPIC)
    for level, records in before.items():
        assert after[level][: len(records)] == records


def test_a_broker_serves_what_was_copied_into_a_layout_of_its_own(tmp_path: Path) -> None:
    with TemplateKafka() as kafka:
        living_topic(kafka)
        not_copied_topic(kafka, TOPIC)
        world = make_world(kafka, TOPIC, kafka.restart)
        snapshot = snapshot_of(kafka, TOPIC, tmp_path / "snapshot")
        before = read_everything(kafka, TOPIC)

        said = CopyCommand(kafka, tmp_path, snapshot, TOPIC, storage=storage_of(kafka)).copy()

        assert (said["segments"] >= 5, said["partitions"][0]["stopped_by"]) == (True, None)
        suffixes = {suffix.removesuffix("?"): not suffix.endswith("?") for suffix in FILES}
        layout = layout_named("template", LayoutOptions("", (), PATTERN, suffixes))
        assert scrub(kafka, layout=layout) == []
        ours = {s.remote_log_segment_id.id for s in segments_of(kafka, world.tip)}
        for level, records in before.items():
            check_read(read_by_command(kafka, tmp_path, level), records)

        hand_over(kafka, world, before)

        left = {
            s.remote_log_segment_id.id: s for s in segments_of(kafka, world.tip) if s.state is S.COPY_SEGMENT_FINISHED
        }
        assert ours < left.keys()
        assert {left[segment_id].broker_id for segment_id in ours} == {COPIER_BROKER_ID}
        assert scrub(kafka, layout=layout) == []
        tiering.tiering_alive(kafka, "living")
