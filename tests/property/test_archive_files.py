# SPDX-License-Identifier: Apache-2.0
"""Whatever file of an archive is removed, changed, moved or added: a restore refuses it before it writes anything."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.features.archiving.archive.reading import open_topic
from tests.archiving import ArchivingCluster, Run
from tests.builders import CLUSTER_ID, tip
from tests.examples import examples

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABw"
NEW_NAMES = ("x", "x.json", "run-1.0123456789abcdef.json", "00000000000000000000-x.log", "part-00009.parquet")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A topic of one to three partitions, archived by one to three runs, with and without deletions in between."""
    return [
        _archived(tmp_path_factory.mktemp("archive"), partitions, runs, deleting)
        for partitions, runs, deleting in ((1, 1, False), (2, 2, False), (3, 3, True), (2, 1, True))
    ]


def _archived(folder: Path, partitions: int, runs: int, deleting: bool) -> Path:
    cluster = ArchivingCluster()
    for partition in range(partitions):
        cluster.real_segments(tip("gone", partition), 2)
    cluster.mark_and_wait()
    for number in range(runs):
        run = Run(cluster, folder, f"run-{number}")
        if number < runs - 1:
            run.plan_again(max_segments=2 * (1 if deleting else number + 1))
        archive = run.archive()
        if deleting:
            run.clean(archive)
    assert lacks(folder / "archives") == []
    return folder / "archives"


def lacks(archives: Path) -> list[str]:
    """What a restore finds wrong; it refuses all of it, and what raises."""
    found = open_topic(str(archives), CLUSTER_ID, TOPIC_ID)
    for log in found.logs:
        log.verify()
    return list(found.missing)


def spoil(archives: Path, data: st.DataObject) -> None:
    """Remove, change, move, replace or add one file or folder."""
    paths = sorted(path for path in archives.rglob("*") if len(path.relative_to(archives).parts) > 2)
    files, folders = [p for p in paths if p.is_file()], [p for p in paths if p.is_dir()]
    how = data.draw(st.sampled_from(["remove", "remove folder", "change", "cut", "move", "copy", "add"]))
    if how == "remove folder":
        shutil.rmtree(data.draw(st.sampled_from(folders)))
        return
    file = data.draw(st.sampled_from(files))
    content = file.read_bytes()
    if how == "remove":
        file.unlink()
    elif how == "change" or (how == "cut" and not content):
        at = data.draw(st.integers(0, len(content)))
        file.write_bytes(
            content[:at] + bytes([(content[at] + 1) % 256 if at < len(content) else 0]) + content[at + 1 :]
        )
    elif how == "cut":
        file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    else:
        name = data.draw(st.sampled_from(NEW_NAMES))
        target = data.draw(st.sampled_from(folders)) / name
        if how == "add":
            target.write_bytes(data.draw(st.sampled_from([b"", b"{}", content])))
        elif how == "copy":
            shutil.copyfile(file, target)
        else:
            file.rename(target)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_any_file_that_is_removed_changed_or_added_is_noticed(
    archives: list[Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = data.draw(st.sampled_from(range(len(archives))))
    spoilt = tmp_path_factory.mktemp("spoilt") / "archives"
    shutil.copytree(archives[whole], spoilt)
    try:
        spoil(spoilt, data)
        try:
            noticed = lacks(spoilt) != []
        except ArchiveError:
            noticed = True
        assert noticed
    finally:
        shutil.rmtree(spoilt)
