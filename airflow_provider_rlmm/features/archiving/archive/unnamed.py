# SPDX-License-Identifier: Apache-2.0
"""
Files of an archive that no manifest names: what named them is missing, or a person put them there.

Only the records of a try that was killed before its manifest are left out: no run reads them, and the next try has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_provider_rlmm.core.base.file_systems import list_files, list_folders
from airflow_provider_rlmm.features.archiving.archive.places import DOCUMENTS, MANIFESTS, RECORDS, SEGMENTS
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest

_SHOWN: Final = 3


def unnamed_files(topic_uri: str, manifests: Mapping[str, Sequence[ArchiveManifest]]) -> list[str]:
    """
    Return what lies in the archive of a topic and is named nowhere, each place a sentence.

    :param topic_uri: folder of the topic in the archive.
    :param manifests: folder of a user partition → its manifests.
    :raises OSError: if it cannot be listed.
    """
    folders = [name for name in list_folders(topic_uri) if name != DOCUMENTS and not name.isdecimal()]
    found = [(topic_uri, [*list_files(topic_uri), *folders])]
    for folder, of in manifests.items():
        found += _of_partition(folder, of)
    return [_said(folder, names) for folder, names in found if names]


def _of_partition(folder: str, manifests: Sequence[ArchiveManifest]) -> Iterator[tuple[str, list[str]]]:
    known = {MANIFESTS, RECORDS, SEGMENTS}
    yield folder, [*list_files(folder), *(name for name in list_folders(folder) if name not in known)]
    named = {f.name for m in manifests for s in m.segments for f in s.files.values()}
    segments = f"{folder}/{SEGMENTS}"
    yield segments, [n for n in [*list_files(segments), *list_folders(segments)] if f"{SEGMENTS}/{n}" not in named]
    yield f"{folder}/{RECORDS}", list_files(f"{folder}/{RECORDS}")
    yield f"{folder}/{MANIFESTS}", list_folders(f"{folder}/{MANIFESTS}")
    for manifest in manifests:
        its = f"{RECORDS}/{manifest.name}.{manifest.try_id}"
        known_records = {file.name for file in manifest.records.files}
        yield f"{folder}/{its}", [n for n in list_files(f"{folder}/{its}") if f"{its}/{n}" not in known_records]


def _said(folder: str, names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else "")
    return f"{folder} holds what nothing names: {shown}"
