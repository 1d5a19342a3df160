# SPDX-License-Identifier: Apache-2.0
"""Manifests in the archive: written last, read back, and read only as the bytes that the caller has named."""

from __future__ import annotations

import hashlib

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.file_systems import create_file, file_sizes, read_file
from airflow_provider_rlmm.features.archiving.archive.places import manifest_file
from airflow_provider_rlmm.features.archiving.archive_manifest import MAX_MANIFEST_BYTES, ArchivedFile, ArchiveManifest
from airflow_provider_rlmm.features.archiving.archive_run import NamedManifest


def write_manifest(folder_uri: str, manifest: ArchiveManifest) -> ArchivedFile:
    """
    Write a manifest beside those of earlier tries and runs, read it back and compare.

    None is ever replaced: what an earlier one names may be deleted by now.

    :param folder_uri: of the user partition.
    :param manifest: what is to be written.
    :raises ArchiveError: if it does not read back.
    :raises OSError: if it cannot be written or read.
    """
    name, data = manifest_file(manifest.name, manifest.try_id), manifest.to_json().encode()
    create_file(f"{folder_uri}/{name}", [data])
    described = ArchivedFile(name, len(data), hashlib.sha256(data).hexdigest())
    if read_manifest(folder_uri, name, described.sha256) != manifest:
        raise ArchiveError(f"{folder_uri}/{name} does not read back as it was written")
    return described


def read_manifest(folder_uri: str, name: str, sha256: str | None = None) -> ArchiveManifest:
    """
    Read a manifest.

    :param folder_uri: of the user partition.
    :param name: its path below.
    :param sha256: of the only bytes to take, lower-case hex; ``None`` takes any that are a manifest.
    :raises ArchiveError: if it is not there, not the one that was named, or cannot be read.
    """
    uri = f"{folder_uri}/{name}"
    data = _bytes_of(uri)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise ArchiveError(f"{uri} is not the manifest that was written: archive again")
    return _parsed(uri, data)


def named_manifest(folder_uri: str, name: str) -> tuple[NamedManifest, ArchiveManifest]:
    """
    Read a manifest, and say which one it is.

    :param folder_uri: of the user partition.
    :param name: its path below.
    :raises ArchiveError: if it is not there, or cannot be read.
    """
    data = _bytes_of(f"{folder_uri}/{name}")
    manifest = _parsed(f"{folder_uri}/{name}", data)
    records = manifest.records
    return (
        NamedManifest(
            manifest.partition, name, hashlib.sha256(data).hexdigest(), len(manifest.segments), records.first_offset,
            records.last_offset,
        ),
        manifest,
    )  # fmt: skip


def _bytes_of(uri: str) -> bytes:
    try:
        return bytes(read_file(uri, MAX_MANIFEST_BYTES))
    except OSError as e:
        raise ArchiveError(f"{uri} cannot be read ({e}): without it there is no archive") from e


def _parsed(uri: str, data: bytes) -> ArchiveManifest:
    try:
        return ArchiveManifest.from_json(data.decode())
    except UnicodeDecodeError as e:
        raise ArchiveError(f"{uri} cannot be read ({e}): without it there is no archive") from e


def require_files(folder_uri: str, manifest: ArchiveManifest) -> None:
    """
    Look for every file of a manifest in a listing, without reading it.

    :param folder_uri: of the user partition.
    :param manifest: of an archive there.
    :raises ArchiveError: naming the first one that is not there, or has another size.
    """
    segments = [file for segment in manifest.segments for file in segment.files.values()]
    listed: dict[str, dict[str, int]] = {}
    for file in (*segments, *manifest.records.files):
        folder, _, name = file.name.rpartition("/")
        if folder not in listed:
            try:
                listed[folder] = file_sizes(f"{folder_uri}/{folder}")
            except OSError as e:
                raise ArchiveError(f"{folder_uri}/{folder} cannot be listed: {e}") from e
        size = listed[folder].get(name)
        if size != file.bytes:
            found = "is not there" if size is None else f"has {size} bytes, not {file.bytes}"
            raise ArchiveError(
                f"{folder_uri}/{file.name} {found}: the archive {manifest.name} is not whole; archive again"
            )
