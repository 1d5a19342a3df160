# SPDX-License-Identifier: Apache-2.0
"""A dry run of the copier has nothing at hand that writes, and says what the copy does."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.features.copying.copy_context import CopyContext, SeenStorage
from airflow_provider_rlmm.features.copying.copy_effects import DryRunCopyEffects, RealCopyEffects
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from tests.unit.features.copying.copying import CopyWorld


class OnlyLooks:
    """
    What a protocol names of an object, and nothing else.

    :param whole: the object, which may write, too.
    :param kind: the protocol.
    """

    def __init__(self, whole: Any, kind: type) -> None:
        self._whole, self._kind = whole, kind

    def __getattr__(self, name: str) -> Any:
        assert name in dir(self._kind), f"{self._kind.__name__} has no {name}"
        return getattr(self._whole, name)


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


def test_a_dry_run_does_with_what_only_looks_and_says_what_the_copy_does(world: CopyWorld) -> None:
    log, storage = OnlyLooks(world.log, MetadataLogReader), OnlyLooks(world.storage, SeenStorage)
    looking: Any = (log, world.leader, storage)
    context = CopyContext(*looking, world.context.cluster_id, world.root, clock=lambda: world.now_ms)
    planned = DryRunCopyEffects().copy(context, world.source)
    assert (world.said(), planned.report, planned.segments, planned.stopped_by) == ([], None, 4, None)
    copied = RealCopyEffects(CopyWriter(world.publisher, world.storage)).copy(context, world.source)
    assert (copied.planned, copied.segments, copied.bytes) == (None, planned.segments, planned.bytes)
    assert world.states()[-1][0] == 30


def test_what_writes_is_in_the_real_effects_alone() -> None:
    assert [field.name for field in fields(RealCopyEffects)] == ["writer"]
    assert fields(DryRunCopyEffects) == ()
    assert not {"publisher", "writer"} & {field.name for field in fields(CopyContext)}


def test_a_wrong_root_ends_a_copy_and_is_said_by_a_dry_run(world: CopyWorld) -> None:
    error = StorageRootError("it is an old copy")
    assert DryRunCopyEffects().refuse_root(error) == "a real run would be refused: it is an old copy"
    with pytest.raises(StorageRootError, match="old copy"):
        RealCopyEffects(CopyWriter(world.publisher, world.storage)).refuse_root(error)
