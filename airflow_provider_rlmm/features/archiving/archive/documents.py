# SPDX-License-Identifier: Apache-2.0
"""The documents of runs in the archive of a topic: written after the manifests, named by run and checksum, never replaced."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.file_systems import create_file, list_files, list_folders, read_file
from airflow_provider_rlmm.features.archiving.archive.manifests import named_manifest, require_files
from airflow_provider_rlmm.features.archiving.archive.places import DOCUMENTS, MANIFESTS, document_file
from airflow_provider_rlmm.features.archiving.archive_run import MAX_ARCHIVE_RUN_BYTES, ArchiveRun, NamedManifest

_NAMED: Final = re.compile(r".+\.([0-9a-f]{64})\.json")


def list_documents(topic_uri: str) -> list[str]:
    """
    Return the names of what lies where the documents of a topic do, sorted.

    :param topic_uri: folder of the topic in the archive.
    :raises ArchiveError: if it cannot be listed.
    """
    try:
        return list_files(f"{topic_uri}/{DOCUMENTS}")
    except OSError as e:
        raise ArchiveError(f"{topic_uri}/{DOCUMENTS} cannot be listed: {e}") from e


def read_document(topic_uri: str, name: str) -> ArchiveRun:
    """
    Read the document of a run, as the very bytes that its name says.

    :param topic_uri: folder of the topic in the archive.
    :param name: its file name.
    :raises ArchiveError: if it is not there, is not the one that was written, or cannot be read.
    """
    uri = f"{topic_uri}/{DOCUMENTS}/{name}"
    named = _NAMED.fullmatch(name)
    try:
        data = bytes(read_file(uri, MAX_ARCHIVE_RUN_BYTES))
        if named is None or hashlib.sha256(data).hexdigest() != named[1]:
            raise ArchiveError(f"{uri} is not a document that a run has written: its name says another checksum")
        return ArchiveRun.from_json(data.decode())
    except (OSError, UnicodeDecodeError) as e:
        raise ArchiveError(f"{uri} cannot be read ({e})") from e


def write_document(topic_uri: str, run: ArchiveRun) -> str:
    """
    Write the document of a run beside those of earlier ones, and read it back; one with the same bytes stays.

    :param topic_uri: folder of the topic in the archive.
    :param run: what it says.
    :return: its file name.
    :raises ArchiveError: if it cannot be written, or does not read back.
    """
    data = run.to_json().encode()
    name = document_file(run.name, hashlib.sha256(data).hexdigest())
    try:
        create_file(f"{topic_uri}/{DOCUMENTS}/{name}", [data])
    except OSError as e:
        raise ArchiveError(f"{topic_uri}/{DOCUMENTS}/{name} cannot be written: {e}") from e
    if read_document(topic_uri, name) != run:
        raise ArchiveError(f"{topic_uri}/{DOCUMENTS}/{name} does not read back as it was written")
    return name


def left_by_earlier_tries(
    topic_uri: str, run_name: str, plan_id: str | None, written: Iterable[NamedManifest], documents: Sequence[str]
) -> list[NamedManifest]:
    """
    Return the manifests that killed tries of the same run have left and no document names: this try names them.

    Those of other runs are not taken: where a document was lost it cannot be told what it named besides.

    :param topic_uri: folder of the topic in the archive.
    :param run_name: of the run.
    :param plan_id: its plan, ``None`` where it has none.
    :param written: the manifests of this try.
    :param documents: names of the documents that are there.
    :raises ArchiveError: if the archive cannot be read, or such a manifest is not whole.
    """
    known = {(m.partition, m.name) for m in written}
    for name in documents:
        known |= {(m.partition, m.name) for m in read_document(topic_uri, name).manifests}
    found = []
    try:
        for partition in (name for name in list_folders(topic_uri) if name.isdecimal()):
            folder = f"{topic_uri}/{partition}"
            for name in list_files(f"{folder}/{MANIFESTS}"):
                path = f"{MANIFESTS}/{name}"
                if not name.startswith(f"{run_name}.") or (int(partition), path) in known:
                    continue
                named, manifest = named_manifest(folder, path)
                if (manifest.name, manifest.plan_id) == (run_name, plan_id):
                    require_files(folder, manifest)
                    found.append(named)
    except OSError as e:
        raise ArchiveError(f"{topic_uri} cannot be listed: {e}") from e
    return found


def read_documents(topic_uri: str, topic_id: str) -> tuple[dict[str, ArchiveRun], list[str]]:
    """
    Read all documents of a topic.

    :param topic_uri: folder of the topic in the archive.
    :param topic_id: its id in Kafka's form.
    :return: name of a document → what it says; and of what is no document of the topic, why.
    :raises ArchiveError: if they cannot be listed.
    """
    runs, unreadable = {}, []
    for name in list_documents(topic_uri):
        try:
            run = read_document(topic_uri, name)
        except ArchiveError as e:
            unreadable.append(str(e))
            continue
        if run.topic_id == topic_id:
            runs[name] = run
        else:
            unreadable.append(f"{topic_uri}/{DOCUMENTS}/{name} is of the topic id {run.topic_id}")
    return runs, unreadable
