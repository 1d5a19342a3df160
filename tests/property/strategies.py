# SPDX-License-Identifier: Apache-2.0
"""Any record that Kafka could hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=300) | st.text("abcXYZ019._-", max_size=249)
custom_metadata = st.none() | st.binary(max_size=300)
leader_epochs = st.dictionaries(int32, int64, min_size=1, max_size=6).map(lambda epochs: tuple(sorted(epochs.items())))
segment_states = st.sampled_from(RemoteLogSegmentState)
partitions = st.builds(TopicIdPartition, st.uuids(), names, int32)
segment_ids = st.builds(RemoteLogSegmentId, partitions, st.uuids())


@st.composite
def segments(draw: st.DrawFn) -> RemoteLogSegmentMetadata:
    start, end = sorted(draw(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2)))
    return RemoteLogSegmentMetadata(
        draw(segment_ids),
        start,
        end,
        draw(int64),
        draw(int32),
        draw(int64),
        draw(int32),
        draw(custom_metadata),
        draw(segment_states),
        draw(leader_epochs),
        draw(st.booleans()),
    )


updates = st.builds(RemoteLogSegmentMetadataUpdate, segment_ids, int64, custom_metadata, segment_states, int32)
partition_deletes = st.builds(
    RemotePartitionDeleteMetadata, partitions, st.sampled_from(RemotePartitionDeleteState), int64, int32
)
snapshots = st.builds(
    RemoteLogSegmentMetadataSnapshot,
    st.uuids(),
    int64,
    int64,
    int64,
    int32,
    int64,
    int32,
    custom_metadata,
    segment_states,
    leader_epochs,
    st.booleans(),
)
records = segments() | updates | partition_deletes | snapshots

keyed_segments = st.builds(lambda event, epoch: replace(event, broker_leader_epoch=epoch), segments(), int32)
keyed_updates = st.builds(
    RemoteLogSegmentMetadataUpdate, segment_ids, int64, custom_metadata, segment_states, int32, int64, int32
)
keyed_records = keyed_segments | keyed_updates
"""Records of api version 1, but for those that say nothing that version 0 could not."""
