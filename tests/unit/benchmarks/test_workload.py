# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' workload is what its page says."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from benchmarks.workload import generate, read, write


@pytest.fixture(scope="module")
def workload():
    return generate(20_000)


@pytest.mark.slow
def test_every_value_decodes_and_the_mix_is_as_said(workload):
    events = [deserialize(value) for value in workload.values.to_pylist()]
    adds = [event for event in events if isinstance(event, RemoteLogSegmentMetadata)]
    mix = workload.mix
    assert abs(len(events) - 20_000) < 1_000
    assert (mix["values"], mix["adds"]) == (len(events), len(adds))
    assert mix["multi-epoch adds"] == sum(len(add.segment_leader_epochs) == 2 for add in adds)
    assert mix["DELETE_SEGMENT_FINISHED"] == sum(
        getattr(event, "state", None) is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED for event in events
    )
    assert mix["multi-epoch adds"] / mix["adds"] == pytest.approx(1 / 3, abs=0.05)
    assert mix["irregular segments"] / mix["adds"] == pytest.approx(0.01, abs=0.002)
    assert 0.1 < sum(add.custom_metadata is not None for add in adds) / len(adds) < 0.5
    assert workload.metadata_partitions.tolist() == [
        metadata_partition_for(topic_id_partition_of(event), 5) for event in events
    ]


def test_a_third_of_the_segments_is_live_and_little_is_dropped(workload):
    state, report = ColumnarState.empty().apply(decode(workload.values))
    assert report.quarantined.num_rows == report.would_end_consumer.num_rows == 0
    assert 0 < report.dropped.num_rows < 0.01 * len(workload.values)
    assert state.segments.num_rows / workload.mix["adds"] == pytest.approx(1 / 3, abs=0.05)


def test_a_seed_decides_everything(workload, tmp_path):
    write(tmp_path / "values", workload.values)
    assert read(tmp_path / "values").equals(generate(20_000).values)
    assert not generate(20_000, seed=1).values.equals(workload.values)
