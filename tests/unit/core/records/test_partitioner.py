# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from airflow_provider_rlmm.core.records.decoding.decode import metadata_partitions
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from tests.unit.core.records.events import PARTITION
from tests.unit.core.records.recorded import json_lines

CASES = json_lines("golden_partitioner.jsonl")


def test_all_golden_cases_one_by_one():
    assert len(CASES) == 400
    for case in CASES:
        partition = TopicIdPartition(UUID(hex=case["topic_id_hex"]), case["topic"], case["partition"])
        assert metadata_partition_for(partition, case["num_partitions"]) == case["metadata_partition"], case


def test_all_golden_cases_at_once():
    topic_ids = np.frombuffer(b"".join(bytes.fromhex(case["topic_id_hex"]) for case in CASES), dtype="V16")
    partitions = np.array([case["partition"] for case in CASES], dtype=np.int32)
    for count in {case["num_partitions"] for case in CASES}:
        found = metadata_partitions(topic_ids, partitions, count)
        for case, metadata_partition in zip(CASES, found.tolist(), strict=True):
            if case["num_partitions"] == count:
                assert metadata_partition == case["metadata_partition"], case


def test_the_name_does_not_count():
    renamed = TopicIdPartition(PARTITION.topic_id, "another", PARTITION.partition)
    assert metadata_partition_for(renamed, 50) == metadata_partition_for(PARTITION, 50)


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_is_refused(count):
    with pytest.raises(ValueError, match="cannot have"):
        metadata_partition_for(PARTITION, count)
