# SPDX-License-Identifier: Apache-2.0
"""A broker that copies from now on, behind what we have copied."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, TopicIdPartition
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot
from dev import tiering
from dev.broker import LocalKafka, await_condition
from tests.integration.copying.copies import Copies, check_copies, check_hard, copied_by_a_broker, copies_of
from tests.integration.copying.our_copier import OurCopier
from tests.integration.copying.world import last_stable_offset, living_topic, make_world, not_copied_topic, to_be_copied
from tests.integration.copying.writing import TIMEOUT_S, Record, alter_topic, read_records

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


def check_a_broker_goes_on_from_our_copies(
    folder: Path, kafka_version: str | None = None, topic: str = "uncopied"
) -> None:
    """
    Copy a broker's own disk, compare that with what a broker makes of it, and let the broker go on.

    :param folder: an empty one.
    :param kafka_version: another Kafka than the one of ``dev/pom.xml``.
    :param topic: name of the topic.
    """
    with LocalKafka(kafka_version=kafka_version) as kafka:
        living_topic(kafka)
        not_copied_topic(kafka, topic)
        world = make_world(kafka, topic, kafka.restart)
        expected = to_be_copied(kafka.bootstrap_servers, kafka.log_dir / f"{topic}-0", topic)
        kafka.stop()
        take_snapshot(kafka.log_dir, folder / "snapshot")
        theirs = copied_by_a_broker(kafka.log_dir, folder / "other", world.tip, expected, kafka_version)
        kafka.start()
        before = read_everything(kafka, topic)

        report = OurCopier.of(kafka).copy(folder / "snapshot", world.tip)

        assert report.stopped_by is None
        ours = check_copies(kafka, world.tip)
        assert ours.objects == theirs.objects
        assert ours.bare_segments == theirs.bare_segments
        check_hard(ours, before)
        enable_copying(kafka, topic)
        world.open_transaction.commit_transaction(TIMEOUT_S)
        world.writer.write(90)
        await_all_remote(kafka, world.tip)
        after = read_everything(kafka, topic)
        assert after["read_uncommitted"][: len(before["read_uncommitted"])] == before["read_uncommitted"]
        assert after["read_committed"][: len(before["read_committed"])] == before["read_committed"]
        kafka.restart()
        assert read_everything(kafka, topic) == after
        check_adopted(kafka, world.tip, ours)
        tiering.tiering_alive(kafka, "living")
