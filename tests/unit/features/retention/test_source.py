# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.retention.spark.source import TopicRange, reader_options

RANGE = TopicRange("__remote_log_metadata", UUID(int=1), {0: 3, 1: 0}, {0: 9, 1: 0})


def test_what_is_read_is_fixed_and_every_metadata_partition_is_read_by_one_task() -> None:
    options = reader_options({"bootstrap.servers": "a:1"}, RANGE, {0: 5, 1: 0})
    assert options["assign"] == '{"__remote_log_metadata": [0, 1]}'
    assert options["startingOffsets"] == '{"__remote_log_metadata": {"0": 5, "1": 0}}'
    assert options["endingOffsets"] == '{"__remote_log_metadata": {"0": 9, "1": 0}}'
    assert options["failOnDataLoss"] == "true"
    assert not {"minpartitions", "maxrecordsperpartition"} & {name.lower() for name in options}


def test_client_properties_set_the_pace_and_not_what_is_read() -> None:
    given = {"fetch.max.bytes": "1", "isolation.level": "read_committed", "allow.auto.create.topics": "true"}
    options = reader_options(given, RANGE, RANGE.begin)
    assert (options["kafka.fetch.max.bytes"], options["kafka.max.poll.records"]) == ("1", "20000")
    assert options["kafka.isolation.level"] == "read_uncommitted"
    assert options["kafka.allow.auto.create.topics"] == "false"


@pytest.mark.parametrize("name", ["minPartitions", "kafka.minpartitions", "maxRecordsPerPartition"])
def test_what_would_split_a_metadata_partition_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"\['{name}'\]: a metadata partition must be read by one task"):
        reader_options({name: "4"}, RANGE, RANGE.begin)
