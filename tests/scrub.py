# SPDX-License-Identifier: Apache-2.0
"""The scrub that ends every integration test that deletes: storage listing versus metadata, both ways."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from dev import tiering
from dev.broker import LocalKafka

Place = tuple[int, int]
"""Metadata partition and offset."""


def unfinished_segments(kafka: LocalKafka, bad: Collection[Place] = ()) -> list[RemoteLogSegmentMetadata]:
    """
    Return every segment of the metadata topic that is not finished.

    :param bad: where the records lie that cannot be applied: these, and no others.
    """
    found, quarantined = [], set()
    with KafkaMetadataEventLog(KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers})) as log:
        for metadata_partition in range(log.partition_count):
            replay = MetadataPartitionReplay(log, metadata_partition)
            replay.advance()
            quarantined |= {(metadata_partition, record.offset) for record in replay.quarantined}
            for history in replay.histories.values():
                found += history.unfinished()
    assert quarantined == set(bad)
    return found


def scrub(kafka: LocalKafka, bad: Collection[Place] = (), layout: Layout | None = None) -> list[str]:
    """
    Return what does not fit: objects that no unfinished segment explains, and copied segments without their objects.

    The listing is taken before the metadata for the first question, and after it for the second: the order that cannot lie.

    :param bad: where the records lie that cannot be applied: these, and no others.
    :param layout: of the storage; the broker's folder by default.
    """
    prefix = "" if layout else LocalTieredStorageLayout.prefix
    layout = layout or LocalTieredStorageLayout()
    before = {prefix + key for key in tiering.remote_listing(kafka)}
    segments = unfinished_segments(kafka, bad)
    after = {prefix + key for key in tiering.remote_listing(kafka)}
    stems = {layout.segment_stem(m, place) for m in segments for place in layout.places_of(m)}
    explained = {stem + suffix for stem in stems for suffix in layout.suffixes}
    unexplained = [f"unreferenced object {key}" for key in sorted(before - explained)]
    missing = [
        f"missing object {key}"
        for m in segments
        if m.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        for key in _missing_keys(layout, m, after)
    ]
    return unexplained + missing


def _missing_keys(layout: Layout, segment: RemoteLogSegmentMetadata, there: Collection[str]) -> list[str]:
    """Return the keys that a copy lacks where it is most nearly whole: of several places it lies at one."""
    places = [layout.required_keys(segment, place) for place in layout.places_of(segment)]
    return min(([key for key in keys if key not in there] for keys in places), key=len)
