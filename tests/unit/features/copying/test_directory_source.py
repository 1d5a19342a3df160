# SPDX-License-Identifier: Apache-2.0
"""A segment that is expected is verified ahead, and nothing else is taken for it."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.features.copying import copy_source
from airflow_provider_rlmm.features.copying.copy_source import DirectorySource
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.verification import VerifiedSegment, verify_segment
from airflow_provider_rlmm.features.copying.rules import LocalSegment
from tests.log_directories import HandmadeDisk
from tests.unit.features.copying.test_segment_verification import EPOCHS, ORDERS, SECOND, SEGMENTS

PATIENCE_S = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return HandmadeDisk(tmp_path / "data").write("orders-0", SEGMENTS, epochs=EPOCHS)


@pytest.fixture
def source(folder: Path) -> DirectorySource:
    return DirectorySource(LogDirectory.open(LogDisk.open(folder.parent), ORDERS))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> tuple[Event, list[int]]:
    """Tell when a verification was begun, and of which segments."""
    event, bases = Event(), list[int]()

    def noted(directory: LogDirectory, segment: Any) -> VerifiedSegment:
        bases.append(segment.base_offset)
        event.set()
        return verify_segment(directory, segment)

    monkeypatch.setattr(copy_source, "verify_segment", noted)
    return event, bases


def segments_of(source: DirectorySource) -> tuple[LocalSegment, ...]:
    return source.facts().segments


def test_a_segment_that_is_expected_is_verified_once_and_ahead(
    source: DirectorySource, begun: tuple[Event, list[int]]
) -> None:
    (event, bases), (first, second) = begun, segments_of(source)
    source.expect(second)
    assert event.wait(PATIENCE_S)
    assert source.verify(second).segment == second
    assert bases == [second.base_offset]
    assert source.verify(first).segment == first
    assert source.verify(second).segment == second
    assert bases == [second.base_offset, first.base_offset, second.base_offset]


def test_another_segment_than_the_expected_one_is_verified_itself(
    source: DirectorySource, begun: tuple[Event, list[int]]
) -> None:
    first, second = segments_of(source)
    source.expect(second)
    ready = source.verify(first)
    assert (ready.segment, ready.data.log_segment.name) == (first, f"{0:020d}.log")
    assert sorted(begun[1]) == [first.base_offset, second.base_offset]


def test_damage_is_told_where_the_segment_is_asked_for(source: DirectorySource, folder: Path) -> None:
    first, second = segments_of(source)
    log = folder / f"{SECOND}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    times = log.stat()
    log.write_bytes(data)
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    source.expect(second)
    assert source.verify(first).segment == first
    source.expect(second)
    with pytest.raises(DamagedObjectError, match=SECOND):
        source.verify(second)
