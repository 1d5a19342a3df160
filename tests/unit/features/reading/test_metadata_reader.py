# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, EventLogUnavailableError, OffsetOutOfRangeError
from airflow_provider_rlmm.features.reading.metadata_reader import read_to_parquet
from tests.builders import Cluster, tip


@pytest.fixture
def cluster() -> Cluster:
    """Metadata partition 0 holds five records, the last of them a tombstone; 1 holds none."""
    cluster = Cluster(metadata_partitions=2, living_topic=False)
    here = next(t for i in range(99) if cluster.metadata_partition_of(t := tip("orders", i)) == 0)
    cluster.segments(here, 2)
    cluster.log.append(0, None, timestamp_ms=5)
    return cluster


def file_of(folder: Path, metadata_partition: int = 0) -> Path:
    return folder / f"metadata-partition-{metadata_partition}.parquet"


def test_every_record_is_written_decoded_bad_ones_included(cluster: Cluster, tmp_path: Path) -> None:
    report = read_to_parquet(cluster.log, str(tmp_path / "out"))
    assert (report.rows, report.quarantined, report.next_offsets) == (5, 1, {0: 5, 1: 0})
    rows = pq.read_table(file_of(tmp_path / "out")).to_pylist()
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["topic"] for row in rows] == ["orders"] * 4 + [None]
    assert [row["error_code"] for row in rows] == [0, 0, 0, 0, 1]
    assert (rows[4]["timestamp_ms"], rows[4]["metadata_partition"]) == (5, 0)
    assert [p.name for p in (tmp_path / "out").iterdir()] == [file_of(tmp_path).name]


def test_a_range_begins_inclusive_and_ends_exclusive(cluster: Cluster, tmp_path: Path) -> None:
    report = read_to_parquet(cluster.log, tmp_path.as_uri(), start_offsets={0: 1}, end_offsets={0: 3})
    assert (report.rows, report.quarantined, report.next_offsets) == (2, 0, {0: 3, 1: 0})
    assert pq.read_table(file_of(tmp_path)).column("offset").to_pylist() == [1, 2]


def test_the_next_offsets_are_where_the_next_read_begins(cluster: Cluster, tmp_path: Path) -> None:
    first = read_to_parquet(cluster.log, str(tmp_path))
    cluster.log.append(0, None)
    second = read_to_parquet(cluster.log, str(tmp_path), start_offsets=first.next_offsets)
    assert (second.rows, second.next_offsets) == (1, {0: 6, 1: 0})
    assert pq.read_table(file_of(tmp_path)).column("offset").to_pylist() == [5]


def test_a_start_below_the_beginning_begins_there(cluster: Cluster, tmp_path: Path) -> None:
    cluster.log.truncate(0, 3)
    assert read_to_parquet(cluster.log, str(tmp_path), start_offsets={0: 0}).rows == 2


def test_an_end_above_the_high_watermark_is_refused_before_anything_is_written(
    cluster: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="metadata partition 1: end offset 1 lies above the high watermark 0"):
        read_to_parquet(cluster.log, str(tmp_path), end_offsets={1: 1})
    assert list(tmp_path.iterdir()) == []


def test_a_start_behind_the_end_is_no_rewind(cluster: Cluster, tmp_path: Path) -> None:
    assert read_to_parquet(cluster.log, str(tmp_path), start_offsets={0: 5}).rows == 0
    with pytest.raises(
        OffsetOutOfRangeError, match="metadata partition 0: start offset 6 lies behind the high watermark 5"
    ):
        read_to_parquet(cluster.log, str(tmp_path), start_offsets={0: 6})


@pytest.mark.parametrize("offsets", [{"start_offsets": {2: 0}}, {"end_offsets": {-1: 0}}])
def test_a_metadata_partition_that_does_not_exist_is_refused(
    cluster: Cluster, tmp_path: Path, offsets: dict[str, dict[int, int]]
) -> None:
    with pytest.raises(ConfigurationError, match="there is no metadata partition"):
        read_to_parquet(cluster.log, str(tmp_path), **offsets)


def test_a_range_that_cannot_be_read_whole_leaves_no_file(cluster: Cluster, tmp_path: Path) -> None:
    cluster.log.on_effect = lambda name, _: 3 if name == "read" else None
    with pytest.raises(EventLogUnavailableError, match="cut short at offset 3"):
        read_to_parquet(cluster.log, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_end_before_the_start_is_refused_and_not_an_empty_range(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="end offset 1 lies before start offset 2: give a later one, or none"):
        read_to_parquet(cluster.log, str(tmp_path), start_offsets={0: 2}, end_offsets={0: 1})
    assert not list(tmp_path.iterdir())
