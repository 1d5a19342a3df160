# SPDX-License-Identifier: Apache-2.0
"""The shortest way: a stopped broker's directory is copied, and its broker goes on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from dev import tiering
from dev.broker import LocalKafka
from tests.integration.copying.adopting import await_all_remote, check_adopted, enable_copying, read_everything
from tests.integration.copying.copies import check_copies
from tests.integration.copying.our_copier import OurCopier
from tests.integration.copying.world import living_topic, not_copied_topic, snapshot_of, to_be_copied
from tests.integration.copying.writing import Writer

pytestmark = pytest.mark.integration

TOPIC = "copied-by-us"


def test_a_broker_goes_on_behind_our_copies(kafka: LocalKafka, tmp_path: Path) -> None:
    living_topic(kafka, "copied-by-its-broker")
    not_copied_topic(kafka, TOPIC)
    tip = TopicIdPartition(tiering.topic_ids(kafka)[TOPIC], TOPIC, 0)
    writer = Writer(kafka.bootstrap_servers, TOPIC)
    writer.write(150)
    expected = to_be_copied(kafka.bootstrap_servers, kafka.log_dir / f"{TOPIC}-0", TOPIC)
    snapshot = snapshot_of(kafka, TOPIC, tmp_path / "snapshot")
    before = read_everything(kafka, TOPIC)

    report = OurCopier.of(kafka).copy(snapshot, tip)

    assert (report.stopped_by, report.needs_person) == (None, False)
    ours = check_copies(kafka, tip)
    assert ours.start_offsets == [m.start_offset for m in report.copied] == expected
    assert len(expected) >= 2
    enable_copying(kafka, TOPIC)
    await_all_remote(kafka, tip)
    assert read_everything(kafka, TOPIC) == before
    check_adopted(kafka, tip, ours)
