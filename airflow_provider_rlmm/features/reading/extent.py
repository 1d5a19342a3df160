# SPDX-License-Identifier: Apache-2.0
"""Which offsets of a lineage are in remote storage, and which segment holds each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.errors import OffsetNotInRemoteLogError
from airflow_provider_rlmm.core.log.known_segments import RemoteLogSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, last_shared_offset
from airflow_provider_rlmm.core.segments.read_range import OffsetRange


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """A segment, and the offsets of a lineage that it serves."""

    metadata: RemoteLogSegmentMetadata  # the segment
    offsets: OffsetRange  # from the offset that was asked for, up to where the segment or its share in the lineage ends

    @property
    def is_whole(self) -> bool:
        """Whether all that the segment holds at its end is of the lineage."""
        return self.offsets.end == self.metadata.end_offset + 1

    def up_to(self, end: int) -> SegmentSpan:
        """Return it without the offsets from an end on."""
        return SegmentSpan(self.metadata, OffsetRange(self.offsets.start, min(self.offsets.end, end)))


@dataclass(frozen=True, slots=True)
class RemoteExtent:
    """
    What remote storage has of one user partition.

    :param segments: knows the segments.
    :param topic_id_partition: the user partition.
    :param lineage: the leader epochs of its log.
    """

    segments: RemoteLogSegments
    topic_id_partition: TopicIdPartition
    lineage: LeaderEpochCheckpoint

    def span_at(self, offset: int) -> SegmentSpan | None:
        """Return the segment that serves an offset, from that offset on; ``None`` where there is none."""
        leader_epoch = self.lineage.epoch_for_offset(offset)
        if leader_epoch is None:
            return None
        metadata = self.segments.remote_log_segment_metadata(self.topic_id_partition, leader_epoch, offset)
        if metadata is None or metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            return None
        end = last_shared_offset(metadata, leader_epoch, self.lineage) + 1
        return SegmentSpan(metadata, OffsetRange(offset, end)) if offset < end else None

    def serves(self, *offsets: int) -> bool:
        """Tell whether each of some offsets is served, without a look at all the segments, which may be very many."""
        return all(self.span_at(offset) is not None for offset in offsets)

    def offsets(self) -> OffsetRange | None:
        """Return all offsets from the first to the last that a segment serves, ``None`` where there are none."""
        spans = [span.offsets for span in self._spans()]
        return OffsetRange(min(s.start for s in spans), max(s.end for s in spans)) if spans else None

    def end(self) -> int:
        """
        Return the end of :meth:`offsets`, exclusive, mostly without a look at all the segments, which may be very many.

        The highest offset that was copied of the latest leader epoch tells it, unless its segment is deleted by now.

        :raises OffsetNotInRemoteLogError: if there are none.
        """
        following: int | None = None
        for leader_epoch, start_offset in reversed(self.lineage.entries):
            highest = self.segments.highest_offset_for_epoch(self.topic_id_partition, leader_epoch)
            last = highest if following is None or highest is None else min(highest, following - 1)
            if last is not None and last >= start_offset:
                if (span := self.span_at(last)) is not None:
                    return span.offsets.end
                break
            following = start_offset
        return self.require_offsets().end

    def parts(self, offsets: OffsetRange) -> list[OffsetRange]:
        """
        Return what of a range is served, by offset: each without a gap, and a gap between any two.

        :param offsets: the range.
        """
        # What is served after a gap begins where a segment, or a leader epoch of one, does.
        known = self.segments.list_remote_log_segments(self.topic_id_partition)
        begins = {start for metadata in known for _, start in metadata.segment_leader_epochs}
        begins |= {metadata.start_offset for metadata in known} | {start for _, start in self.lineage.entries}
        following = iter(sorted(begin for begin in begins if begin > offsets.start))
        found: list[OffsetRange] = []
        offset = offsets.start
        while offset < offsets.end:
            span = self.span_at(offset)
            if span is None:
                offset = next((begin for begin in following if begin > offset), offsets.end)
                continue
            served = span.up_to(offsets.end).offsets
            if found and found[-1].end == offset:
                served = OffsetRange(found.pop().start, served.end)
            found.append(served)
            offset = served.end
        return found

    def require_offsets(self) -> OffsetRange:
        """
        Return what :meth:`offsets` does.

        :raises OffsetNotInRemoteLogError: if there are none.
        """
        offsets = self.offsets()
        if offsets is None:
            raise nothing_remote(self.topic_id_partition)
        return offsets

    def spans(self, offsets: OffsetRange) -> Iterator[SegmentSpan]:
        """
        Yield the segments that serve a range, in order, each from where the one before it ends.

        :raises OffsetNotInRemoteLogError: if one in the range is missing.
        """
        offset = offsets.start
        while offset < offsets.end:
            span = self.span_at(offset)
            if span is None:
                raise self.hole_at(offset)
            yield (served := span.up_to(offsets.end))
            offset = served.offsets.end

    def hole_at(self, offset: int) -> OffsetNotInRemoteLogError:
        """Return the error that says that an offset is missing."""
        there = self.offsets()
        if there is None:
            return nothing_remote(self.topic_id_partition)
        return OffsetNotInRemoteLogError(
            f"offset {offset} of {self.topic_id_partition} is not in the remote log, which has {there.start} to "
            f"{there.end - 1}"
        )

    def _spans(self) -> Iterator[SegmentSpan]:
        for leader_epoch, start_offset in self.lineage.entries:
            for metadata in self.segments.list_remote_log_segments(self.topic_id_partition, leader_epoch):
                begin = dict(metadata.segment_leader_epochs).get(leader_epoch, start_offset)
                span = self.span_at(max(begin, start_offset))
                if span is not None:
                    yield span


def nothing_remote(topic_id_partition: TopicIdPartition) -> OffsetNotInRemoteLogError:
    """Return the error that says of a user partition that nothing of it can be read."""
    return OffsetNotInRemoteLogError(
        f"no remote log segment of {topic_id_partition} can be read: none was copied, all were deleted, or topic, topic id "
        "or partition are not what the metadata topic names"
    )
