# SPDX-License-Identifier: Apache-2.0
"""A broker that copies from now on, behind what we have copied."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, TopicIdPartition
from dev.broker import LocalKafka, await_condition
from tests.integration.copying.copies import Copies, check_copies, copies_of
from tests.integration.copying.world import last_stable_offset
from tests.integration.copying.writing import Record, alter_topic, read_records

ADOPT = {"remote.log.copy.disable": "false", "local.retention.ms": "1000", "local.retention.bytes": "-1"}
"""From now on the broker copies, and keeps on its own disk only what is not remote."""

_HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "copy-a-log-directory.md"


def alter_of_the_how_to() -> dict[str, str]:
    """Return the settings by which the page hands a topic to its brokers; local retention passes at once."""
    (given,) = re.findall(r"--add-config (remote\.log\.copy\.disable=false\S*)", _HOW_TO.read_text())
    settings = dict(setting.split("=") for setting in given.split(","))
    assert settings.keys() == {"remote.log.copy.disable", "retention.ms", "local.retention.ms"}
    return settings | {"local.retention.ms": "1000"}


Everything = dict[str, list[Record]]
"""What a consumer reads under each isolation level."""


def read_everything(kafka: LocalKafka, topic: str) -> Everything:
    levels = ("read_uncommitted", "read_committed")
    return {isolation: read_records(kafka.bootstrap_servers, topic, isolation=isolation) for isolation in levels}


def enable_copying(kafka: LocalKafka, topic: str) -> None:
    """Hand the topic to its leader, by one change."""
    alter_topic(kafka.bootstrap_servers, topic, **ADOPT)


def await_all_remote(kafka: LocalKafka, tip: TopicIdPartition) -> None:
    """Wait until all is remote, and the broker's own disk holds nothing of it."""
    folder = kafka.log_dir / f"{tip.topic}-{tip.partition}"

    def all_gone() -> bool:
        segments = copies_of(kafka, tip).segments
        local = min(int(path.stem) for path in folder.glob("*.log"))
        return local == segments[-1].end_offset + 1 == last_stable_offset(kafka.bootstrap_servers, tip.topic)

    await_condition(all_gone, f"the local segments of {tip} are gone from {folder}", 60, 0.5)


def check_adopted(kafka: LocalKafka, tip: TopicIdPartition, ours: Copies) -> None:
    """Check that brokers have gone on behind our copies, which are still there."""
    segments = check_copies(kafka, tip).segments
    assert segments[: len(ours.segments)] == ours.segments
    assert {segment.broker_id for segment in ours.segments} == {COPIER_BROKER_ID}
    theirs = {segment.broker_id for segment in segments[len(ours.segments) :]}
    assert theirs
    assert COPIER_BROKER_ID not in theirs
