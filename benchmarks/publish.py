# SPDX-License-Identifier: Apache-2.0
"""
A batch of events through ``TopicBasedRemoteLogMetadataManager`` beside the same events one by one, on one real broker.

Both ways pass the write guard and wait until the local view has consumed what was written: the batch waits once, the others
each time. Prints the ratio of the two, and what the wait of the batch costs beside its publishing. Quote the ratios.
"""

from __future__ import annotations

import argparse
import time
from uuid import UUID

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.protocol import Acked, ProvenLook
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.library.topic_based import TopicBasedRemoteLogMetadataManager
from dev.broker import LocalKafka

GONE = TopicIdPartition(UUID(int=405), "gone", 0)
READY_S = 120.0


def segment_id(number: int) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(GONE, UUID(int=1 << 64 | number))


def step(number: int, state: S) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(segment_id(number), 1, None, state, OWN_BROKER_ID)


def orphan(log: KafkaMetadataEventLog, segments: int) -> None:
    """Leave segments of an absent topic behind, their deletion started, as brokers and a cleaner would."""
    adds = [
        RemoteLogSegmentMetadata(
            segment_id(n), 10 * n, 10 * n + 9, 1, 1, 1, 10**9, None, S.COPY_SEGMENT_STARTED, ((0, 10 * n),)
        )
        for n in range(segments)
    ]
    deletions = [
        RemotePartitionDeleteMetadata(GONE, state, 1, OWN_BROKER_ID)
        for state in (P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED)
    ]
    number = metadata_partition_for(GONE, log.partition_count)
    outcomes = log.publish([(number, serialize(event)) for event in (*adds, *deletions)])
    if not all(isinstance(outcome, Acked) for outcome in outcomes):
        raise SystemExit("the segments could not be written")


def measure(log: KafkaMetadataEventLog, events: int, singles: int) -> None:
    publisher = GuardedPublisher(log, allow_writes=True)
    look = ProvenLook(log.topic_id, frozenset({GONE.topic_id}))
    with TopicBasedRemoteLogMetadataManager(log, publisher, look_at=lambda _: look) as m:
        m.on_partition_leadership_changes([GONE], [])
        if not m.await_ready([GONE], READY_S):
            raise SystemExit(f"the manager is not ready: {m.liveness()}")
        batch = [step(n, S.DELETE_SEGMENT_STARTED) for n in range(events)]
        started = time.perf_counter()
        outcomes = m.publish(batch, wait=False)
        published = time.perf_counter()
        m.await_readable(batch, outcomes)
        readable = time.perf_counter()
        for n in range(singles):
            m.publish([step(n, S.DELETE_SEGMENT_FINISHED)])
        each = (time.perf_counter() - readable) / singles
    publish_s, wait_s = published - started, readable - published
    print(
        f"batch of {events:,}: {publish_s:.2f} s to publish, then {wait_s:.2f} s to wait; one by one {each * 1e3:.1f} ms each"
    )
    print(f"one by one / batch  {each * events / (publish_s + wait_s):.0f}x  (at least 20x; {singles} single events)")
    print(f"wait / publish      {wait_s / publish_s:.2f}  (at most 1)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--singles", type=int, default=500)
    arguments = parser.parse_args()
    with LocalKafka() as kafka, KafkaMetadataEventLog(KafkaClientConfig(kafka.client_config())) as log:
        orphan(log, arguments.events)
        measure(log, arguments.events, arguments.singles)


if __name__ == "__main__":
    main()
