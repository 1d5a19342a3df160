# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.located import LocatedEvent, LocatedForgetting
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.library.metadata_store import Quarantine, RemotePartitionMetadataStore, UserPartitionView
from tests.unit.core.records.events import PARTITION, segment_id, started


def bad(*offsets: int) -> list[QuarantinedRecord]:
    return [QuarantinedRecord(0, offset, "MISROUTED", "elsewhere") for offset in offsets]


def test_a_batch_that_is_read_again_and_goes_further_counts_what_is_new_in_it() -> None:
    quarantine = Quarantine()
    quarantine.take(bad(3), 9, 10)
    quarantine.take(bad(3), 4, 8)
    quarantine.take(bad(3, 12), 13, 15)
    assert [record.offset for record in quarantine.records] == [3, 12]
    assert (quarantine.total, quarantine.misrouted, quarantine.judged) == (2, 2, 15)


def test_what_is_to_be_forgotten_reaches_every_name_of_its_topic_id_and_is_judged_once() -> None:
    renamed, other = replace(PARTITION, topic="renamed"), replace(PARTITION, partition=PARTITION.partition + 1)
    tips = [PARTITION, renamed, other]
    views = {tip: UserPartitionView(UserPartitionHistory(tip), 0, 0, 0, 0, missing_before=0) for tip in tips}
    key = SegmentKey(PARTITION.topic_id, PARTITION.partition, segment_id(1).id, S.COPY_SEGMENT_STARTED)
    adds = [LocatedEvent(offset, 0, started(1, partition=tip)) for offset, tip in enumerate(tips)]
    store = RemotePartitionMetadataStore()
    for asked_at in (3, 2):  # the second one was delivered before: all views have read beyond it
        store.deliver([*adds, LocatedForgetting(asked_at, key)], views)
    uncertain = {tip: view.history.without_add for tip, view in views.items()}
    assert uncertain == {PARTITION: {segment_id(1).id: 3}, renamed: {segment_id(1).id: 3}, other: {}}
    assert store.names == {PARTITION.topic_id: {PARTITION.topic, renamed.topic}}
    assert [view.last_record for view in views.values()] == [3, 3, 2]
