# SPDX-License-Identifier: Apache-2.0
"""
A snapshot of a disk: its closed and open segments as hard links or copies, with their modification times.

Segments that the broker deletes stay in it. A hard link shows what a broker does to the file itself, which it does where it
truncates or recovers a log after its start: a copier verifies a segment first, and looks afterwards whether it has
changed.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.core.base.local_writing import telling_of_full_disks
from airflow_provider_rlmm.features.copying.log_directory.broker_lock import kept_from_brokers
from airflow_provider_rlmm.features.copying.log_directory.disk import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    TEXT_FILES,
    LogDisk,
    read_disk,
)
from airflow_provider_rlmm.features.copying.log_directory.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    parse_segment_file_name,
)
from airflow_provider_rlmm.features.copying.log_directory.regular_files import open_regular

__all__ = ["take_snapshot"]

_COPY_CHUNK_BYTES: Final = 4 * 1024 * 1024
_NO_HARD_LINK: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
"""Another file system, one without hard links, too many of them, or a file of another user's: it is copied then."""


def take_snapshot(
    source: Path, target: Path, *, partitions: Collection[TopicPartition] | None = None, hard_links: bool = True
) -> LogDisk:
    """
    Take a snapshot of a disk that no running broker holds. A broker cannot start on the disk meanwhile.

    :param source: one of a broker's ``log.dirs``; nothing is written there.
    :param target: folder for the snapshot, which must not exist and not lie below ``source``; it is removed where the
        snapshot fails.
    :param partitions: only these user partitions; ``None`` for all.
    :param hard_links: whether to link segments where the file system can. Copies need as much space as the segments have.
    :return: the snapshot, whole.
    :raises LogDirectoryError: if a broker holds the disk or starts meanwhile, a user partition is not there, or the
        snapshot cannot be written.
    """
    if target.resolve().is_relative_to(source.resolve()):
        raise LogDirectoryError(
            f"{target} lies below {source}: a broker does not start where an unknown folder is in its log.dirs"
        )
    try:
        target.mkdir()
    except OSError as e:
        raise LogDirectoryError(f"{target} cannot be made: {e.strerror}; a snapshot wants a folder of its own") from e
    try:
        with kept_from_brokers(source):
            disk = read_disk(source)
            before = _last_shutdown(source)
            wanted = disk.partitions if partitions is None else sorted(partitions)
            _fill(source, target, [disk.directory_of(partition) for partition in wanted], hard_links)
            if _last_shutdown(source) != before:
                raise LogDirectoryError(f"{source}: a broker has run on it meanwhile: take the snapshot again")
        return _with_properties(source, target)
    except OSError as e:
        shutil.rmtree(target)
        raise LogDirectoryError(f"the snapshot of {source} failed: {e.filename}: {e.strerror}") from e
    except BaseException:
        shutil.rmtree(target)
        raise


def _fill(source: Path, target: Path, folders: list[Path], hard_links: bool) -> None:
    for folder in folders:
        made = target / folder.name
        made.mkdir()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = parse_segment_file_name(entry.name)
                if name is not None and name.rest != ".deleted":
                    _link_or_copy(Path(entry.path), made / entry.name, hard_links)
                elif entry.name in (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT):
                    _copy(Path(entry.path), made / entry.name)
        shutil.copystat(folder, made)
    for text_file in TEXT_FILES:
        if text_file != META_PROPERTIES and (source / text_file).exists():
            _copy(source / text_file, target / text_file)


def _with_properties(source: Path, target: Path) -> LogDisk:
    """Write last what makes a folder a disk: a snapshot that was cut short has none of it, and is refused."""
    unfinished = target / f"{META_PROPERTIES}.unfinished"
    _copy(source / META_PROPERTIES, unfinished)
    unfinished.replace(target / META_PROPERTIES)
    return LogDisk.open(target)


def _link_or_copy(file: Path, target: Path, hard_links: bool) -> None:
    if hard_links:
        try:
            os.link(file, target, follow_symlinks=False)
        except OSError as e:
            if e.errno not in _NO_HARD_LINK:
                raise
        else:
            return
    _copy(file, target)


def _copy(file: Path, target: Path) -> None:
    with telling_of_full_disks(target), open_regular(file) as old, target.open("xb") as new:
        status = os.fstat(old.fileno())
        shutil.copyfileobj(old, new, _COPY_CHUNK_BYTES)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _last_shutdown(disk: Path) -> tuple[int, int] | None:
    """What tells one orderly end of a broker from the next: it removes the file when it starts."""
    try:
        status = (disk / CLEAN_SHUTDOWN).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
