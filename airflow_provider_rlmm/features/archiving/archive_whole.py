# SPDX-License-Identifier: Apache-2.0
"""Whether the archive of a topic is all that the documents of its runs name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.features.archiving.archive_run import ArchiveRun, NamedSegment

_NAMED_AT_MOST: Final = 5

NO_DOCUMENT: Final = (
    "no document says what the archive has to hold: it was made by an earlier version, or the folder runs/ is gone"
)


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """
    What the archive of a user partition holds.

    :param manifests: path of a manifest below its folder → SHA-256 of its bytes.
    :param segments: ids of the segments that they name, in Kafka's form.
    """

    manifests: Mapping[str, str]
    segments: frozenset[str]


def missing_from(runs: Mapping[str, ArchiveRun], held: Mapping[int, HeldPartition]) -> list[str]:
    """
    Return what the archive of a topic lacks, or holds without that a run has said so; none where it is whole.

    :param runs: name of a document → what it says.
    :param held: user partition → what there is of it.
    """
    if not runs:
        return [NO_DOCUMENT]
    return [*_documents(runs), *_manifests(runs, held), *_segments(runs, held)]


def _documents(runs: Mapping[str, ArchiveRun]) -> Iterator[str]:
    known = {name: run for run in runs.values() for name in run.found}
    for name in sorted(known.keys() - runs.keys()):
        yield f"the document {name} is not there, which {known[name].name} had found"


def _manifests(runs: Mapping[str, ArchiveRun], held: Mapping[int, HeldPartition]) -> Iterator[str]:
    named = {(m.partition, m.name): m for run in runs.values() for m in run.manifests}
    there = {(partition, name) for partition, of in held.items() for name in of.manifests}
    for partition, name in sorted(named.keys() - there):
        m = named[partition, name]
        offsets = "" if m.first_offset is None else f", with offsets {m.first_offset} to {m.last_offset}"
        yield f"partition {partition}: {name} of {number_of(m.segments, 'segment')}{offsets} is not there"
    for partition, name in sorted(there - named.keys()):
        yield f"partition {partition}: {name} is there, and no run says that it has written it"


def _segments(runs: Mapping[str, ArchiveRun], held: Mapping[int, HeldPartition]) -> Iterator[str]:
    wanted: dict[int, dict[str, NamedSegment]] = {}
    for run in runs.values():
        for of in run.partitions:
            wanted.setdefault(of.partition, {}).update({segment.segment_id: segment for segment in of.segments})
    for partition in sorted(wanted):
        there = held[partition].segments if partition in held else frozenset()
        lost = [segment for name, segment in wanted[partition].items() if name not in there]
        if lost:
            shown = ", ".join(s.segment_id for s in lost[:_NAMED_AT_MOST]) + (", …" if lost[_NAMED_AT_MOST:] else "")
            first, last = min(s.start_offset for s in lost), max(s.end_offset for s in lost)
            yield (
                f"partition {partition}: {len(lost)} of the {number_of(len(wanted[partition]), 'segment')} that the "
                f"log named are in no manifest, with offsets {first} to {last}: {shown}"
            )
