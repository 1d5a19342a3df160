# SPDX-License-Identifier: Apache-2.0
"""What a real broker left on its disk is understood, and any damage of it refused."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import RemoteLogError
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.lineage_records import last_records_of_epochs
from airflow_provider_rlmm.features.copying.log_directory.log_end import end_without_leader
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.verification import VerifiedSegment, verify_segment
from tests.examples import examples
from tests.recorded_disk import PARTITION, unpack

DAMAGES = examples(200)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("recorded"))


def verified(disk: Path) -> list[VerifiedSegment]:
    directory = LogDirectory.open(LogDisk.open(disk), PARTITION)
    return [verify_segment(directory, segment) for segment in directory.closed_segments]


def test_every_closed_segment_is_ready_to_copy(disk: Path) -> None:
    found = LogDisk.open(disk)
    assert not found.clean_shutdown
    directory = LogDirectory.open(found, PARTITION)
    assert (directory.log_start_offset, directory.high_watermark, directory.active_base_offset) == (81, 565, 535)
    assert directory.leader_epochs.entries == ((0, 81), (2, 152), (4, 263), (6, 380))

    segments = [one.local_segment for one in verified(disk)]

    assert [segment.base_offset for segment in segments] == [56, 107, 178, 234, 285, 359, 438, 479]
    assert [segment.txn_index_empty for segment in segments] == [True, False, True, False, True, False, True, True]
    assert [segment.leader_epochs for segment in segments[:2]] == [((0, 81),), ((0, 107), (2, 152))]
    assert all(before.end_offset + 1 == after.base_offset for before, after in pairwise(segments))


def test_what_is_open_and_what_proves_the_lineage(disk: Path) -> None:
    directory = LogDirectory.open(LogDisk.open(disk), PARTITION)
    end = end_without_leader(directory)
    records = last_records_of_epochs(directory, log_start_offset=81, end_offset=565)
    assert [record.leader_epoch for record in records] == [0, 2, 4, 6]
    assert [record.offset for record in records] == [150, 261, 377, 564]
    assert end == 470


@pytest.mark.slow
def test_random_damage_is_refused_unless_it_only_makes_a_search_longer(disk: Path, tmp_path: Path) -> None:
    chance = random.Random(20_261_123)
    originals = [one.data for one in verified(disk)]
    for _ in range(DAMAGES):
        copy = tmp_path / "copy"
        shutil.copytree(disk, copy)
        file = damage(chance, chance.choice(originals), disk, copy)
        try:
            verified(copy)
        except RemoteLogError:
            pass
        else:
            # An entry of these that is not checked leads to an earlier place, or to the same one.
            assert file.suffix in (".index", ".timeindex")
        shutil.rmtree(copy)


def damage(chance: random.Random, data: LogSegmentData, disk: Path, copy: Path) -> Path:
    """Flip a bit, cut the end off, fill a part with zeros or take it out: of one file of a segment."""
    files = [data.log_segment, data.offset_index, data.time_index, data.producer_snapshot_index, data.transaction_index]
    file = copy / chance.choice([file for file in files if file is not None]).relative_to(disk)
    content = bytearray(file.read_bytes())
    at = chance.randrange(len(content))
    match chance.randrange(4):
        case 0:
            content[at] ^= 1 << chance.randrange(8)
        case 1:
            del content[at:]
        case 2:
            size = min(chance.randrange(1, 64), len(content) - at)
            content[at : at + size] = bytes(b ^ 0xFF for b in content[at : at + size])
        case _:
            del content[at : at + chance.randrange(1, 64)]
    file.write_bytes(content)
    return file
