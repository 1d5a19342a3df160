# SPDX-License-Identifier: Apache-2.0
"""Whatever a storage layout knows of a segment's files: dry run and copy say the same, and announce only what can be made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import CopyRefusedError, StorageRootError
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, LocalTieredStorageLayout, TemplateLayout
from tests.examples import examples
from tests.unit.features.copying.copying import CopyWorld

FILES: list[IndexType | None] = [None, *IndexType]
PATTERNS = (
    "{topic}/{topic_id}/{partition}/{segment_id}",
    "{topic}-{partition}-{topic_id}/{start_offset:020}-{segment_id}",
)


def suffix_of(file: IndexType | None) -> str:
    return ".log" if file is None else f".{file.value}"


@st.composite
def templates(draw: st.DrawFn) -> Layout:
    """A layout of somebody else that says of some files which object holds them."""
    known = draw(st.just(FILES) | st.lists(st.sampled_from(FILES), unique=True))
    required = draw(st.sets(st.sampled_from(FILES)))
    suffixes = {suffix_of(file): file in required or file is None for file in FILES}
    return TemplateLayout(
        "template",
        draw(st.sampled_from(PATTERNS)),
        suffixes,
        key_prefixes=[draw(st.sampled_from(["", "tiered/", "a/b/"]))],
        files={file: suffix_of(file) for file in known},
    )


LAYOUTS = (
    templates()
    | st.just(LocalTieredStorageLayout())
    | st.sampled_from(["", "tiered/", "a/b/"]).map(lambda prefix: AivenLayout(prefix))
)


def names_every_file(layout: Layout) -> bool:
    """Tell whether it does, by what the layout was made of; one object of Aiven's plugin holds all indexes."""
    if isinstance(layout, AivenLayout | LocalTieredStorageLayout):
        return isinstance(layout, LocalTieredStorageLayout)
    assert isinstance(layout, TemplateLayout)
    return set(layout._files) == set(FILES)


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(layout=LAYOUTS, copied_before=st.booleans())
def test_nothing_is_announced_of_what_a_layout_cannot_take(
    tmp_path_factory: pytest.TempPathFactory, layout: Layout, copied_before: bool
) -> None:
    world = CopyWorld(tmp_path_factory.mktemp("directory"))
    if copied_before:
        world.foreign_copy(0)
    if isinstance(layout, LocalTieredStorageLayout):
        assert [m.start_offset for m in world.copy().copied] == ([10, 20, 30] if copied_before else [0, 10, 20, 30])
        return
    world.storage = InMemoryRemoteStorageManager(layout, clock=lambda: world.now_ms)
    events = world.events()
    if names_every_file(layout):
        assert world.preview().segments
        with pytest.raises(StorageRootError):  # such a layout is no obstacle; nothing shows that brokers read this root
            world.copy()
    else:
        for act in (world.preview, world.copy):
            with pytest.raises(CopyRefusedError, match="nothing can be copied into the storage layout"):
                act()
    assert (world.events(), world.storage.keys) == (events, frozenset())
