# SPDX-License-Identifier: Apache-2.0
"""
Every error that this package raises.

``retriable`` says whether the same call may succeed later without anybody changing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "ArchiveError",
    "ArchivedObjectError",
    "AuditError",
    "BlastRadiusError",
    "CatalogueError",
    "ClockSkewError",
    "ClusterMismatchError",
    "ConfigurationError",
    "CopyCancelledError",
    "CopyRefusedError",
    "DamagedContentsError",
    "DamagedObjectError",
    "DeletionRefusedError",
    "DocumentError",
    "EncryptedSegmentError",
    "EventByHandRefusedError",
    "EventLogAccessError",
    "EventLogError",
    "EventLogUnavailableError",
    "FloorError",
    "ForeignPrefixError",
    "HiddenCopiesError",
    "InvalidStateTransitionError",
    "LeaderStuckError",
    "LogBehindError",
    "LogDirectoryError",
    "LogEraError",
    "LogReplacedError",
    "LostRecordsError",
    "MalformedMetadataError",
    "ManagerClosedError",
    "MetadataError",
    "MetadataPartitionOutOfRangeError",
    "MetadataTopicNotFoundError",
    "MetadataTopicReplacedError",
    "NewerVersionError",
    "NotApprovedError",
    "NotReadyError",
    "OffsetNotInRemoteLogError",
    "OffsetOutOfRangeError",
    "PartitionNotAssignedError",
    "PartitionerMismatchError",
    "PlanError",
    "PublishFailedError",
    "PublishOutcomeUnknownError",
    "QuarantinedRecordsError",
    "ReadAfterWriteError",
    "RecordsTooLargeError",
    "RemoteLogError",
    "RemoteObjectNotFoundError",
    "RestoreError",
    "RlmmError",
    "RoomError",
    "SegmentGoneError",
    "SnapshotRefusedError",
    "SparkMasterError",
    "StoppedError",
    "StorageAccessError",
    "StorageError",
    "StorageFullError",
    "StorageRootError",
    "StorageUnavailableError",
    "TopicIdMissingError",
    "TopicInDoubtError",
    "TopicNeverNamedError",
    "UnhealthyTopicError",
    "UnknownApiKeyError",
    "UnknownHoldError",
    "UnprovenClockError",
    "UnsafeEventError",
    "UnsafeObjectKeyError",
    "UnsupportedMessageFormatError",
    "WriteRefusedError",
    "WritesNotAllowedError",
]


class RlmmError(Exception):
    """Base of every error of this package."""

    retriable: ClassVar[bool] = False
    connection: str | None = None
    """Id of the Airflow connection that the message names, if it names one."""


class ConfigurationError(RlmmError, ValueError):
    """A setting is missing, contradictory or not allowed; the message names it."""


class UnknownHoldError(ConfigurationError):
    """Raised when the hold of a run names a topic that neither log nor cluster knows: nothing would be held by it."""


class LeaderStuckError(RlmmError):
    """Raised when segments of living topics are still there hours after their leaders should have deleted them."""


class DocumentError(RlmmError):
    """Raised when a plan, report or diagnosis cannot be shown: no regular file below the work folder, too large, no JSON."""


class MetadataError(RlmmError):
    """Base of errors about the records of ``__remote_log_metadata``."""


class MalformedMetadataError(MetadataError, ValueError):
    """Raised when bytes are not a record that Kafka's ``RemoteLogMetadataSerde`` accepts."""


class UnknownApiKeyError(MalformedMetadataError):
    """Raised when the apiKey of a record is none that Kafka 4.3 knows: garbage, or written by a newer Kafka."""


class NewerVersionError(MalformedMetadataError):
    """Raised when the api version of a record is above what Kafka 4.3 knows: written by a newer Kafka."""


class InvalidStateTransitionError(MetadataError):
    """Raised when an event does not follow from the current state by Kafka's own state machine."""


class QuarantinedRecordsError(MetadataError):
    """Raised when a metadata partition holds records that cannot be applied and destructive work was asked for."""


class SnapshotRefusedError(MetadataError):
    """Raised when a snapshot is missing, damaged, or of another version, cluster, topic or log; the message says which."""


class UnhealthyTopicError(MetadataError):
    """Raised when the doctor was asked to fail and found what needs a person, such as records that end brokers' consumers."""


class TopicNeverNamedError(MetadataError):
    """
    Raised when a sensor or a caller waits for a topic id that the metadata topic has never named, or names under another
    name.
    """


class TopicInDoubtError(MetadataError):
    """Raised when the metadata topic has lost records, or holds some that cannot be applied, and cannot tell of a topic."""


class EventLogError(RlmmError):
    """Base of errors of the metadata event log."""


class EventLogUnavailableError(EventLogError):
    """Raised when the brokers do not answer within the time limit."""

    retriable = True


class EventLogAccessError(EventLogError):
    """Raised when authentication fails or an ACL forbids the call."""


class MetadataTopicNotFoundError(EventLogError):
    """Raised when the metadata topic does not exist on the cluster."""


class TopicIdMissingError(EventLogError):
    """Raised when the cluster describes a topic without an id, or with the id of zeros that stands for none."""


class MetadataPartitionOutOfRangeError(EventLogError, ValueError):
    """Raised when a metadata partition is not in ``range(partition_count)``."""


class OffsetOutOfRangeError(EventLogError):
    """
    Raised when a metadata partition is to be read from an offset that it does not have.

    :param message: names topic, partition and offsets.
    :param metadata_partition: which partition.
    :param offset: the offset that was asked for.
    """

    def __init__(self, message: str, metadata_partition: int, offset: int) -> None:
        super().__init__(message)
        self.metadata_partition = metadata_partition
        self.offset = offset


class LogReplacedError(EventLogError):
    """Raised when records that were read before have others at their offsets: truncated and regrown, or another cluster."""


class LogBehindError(EventLogError):
    """Raised when the log ends below what an earlier run has read of it, and is still growing: it may be catching up."""

    retriable = True


class LostRecordsError(EventLogError):
    """
    Raised when something would be changed where the log has lost what an earlier run had read of it, and no person has
    confirmed that; or when a confirmation names what is not lost.
    """


class MetadataTopicReplacedError(EventLogError):
    """
    Raised when the metadata topic is another one than earlier runs have worked with, and no person has confirmed that; or
    when a confirmation names another id than it has.
    """


class FloorError(EventLogError):
    """Raised when a real run cannot read, or write down, up to where runs have read the log."""


class NotReadyError(EventLogError):
    """Raised when a user partition is read before the local view has caught up with the metadata topic."""

    retriable = True


class PartitionNotAssignedError(EventLogError):
    """Raised when a user partition is read or written about that the manager was not told to follow."""


class ManagerClosedError(EventLogError):
    """Raised when a metadata manager is used after it was closed."""


class ReadAfterWriteError(EventLogError):
    """
    Raised when events are written but the local view has not consumed them in time: do not publish them again.

    :param message: what was waited for.
    :param outcomes: the outcome of each event of the batch.
    """

    def __init__(self, message: str, outcomes: Sequence[object]) -> None:
        super().__init__(message)
        self.outcomes = tuple(outcomes)


class PublishFailedError(EventLogError):
    """Raised when the log refused a record for certain: it was not written."""


class PublishOutcomeUnknownError(EventLogError):
    """Raised when a record may or may not have been written. A replay tells which; nothing may be assumed before it."""


class WriteRefusedError(RlmmError):
    """Base of refusals of the write guard: nothing of the batch was written."""


class WritesNotAllowedError(WriteRefusedError):
    """Raised when an event is to be published while ``allow_writes``, or a copier's ``allow_copy``, is off."""


class LogEraError(WriteRefusedError):
    """
    Raised when something is to be changed while records of the metadata topic have keys, or may be compacted.

    Brokers of such a cluster write in another way, and what the topic does not say may have been said.
    """


class UnsafeEventError(WriteRefusedError):
    """Raised when an event could end a broker's consumer or is not ours to write: ``core.log.write_guard`` has the rules."""


class EventByHandRefusedError(WriteRefusedError):
    """Raised when an event is to be written by hand without its named override, or without the cleaner's conditions."""


class PartitionerMismatchError(WriteRefusedError):
    """Raised when records observed in the topic lie in another metadata partition than our partitioner computes."""


class DeletionRefusedError(RlmmError):
    """Base of refusals to delete: a safety rule did not hold."""


class ClockSkewError(DeletionRefusedError):
    """Raised when two clocks differ by more than ``max_clock_skew``: this worker's, the brokers', or what a record says."""


class UnprovenClockError(DeletionRefusedError):
    """Raised when nothing but this worker's own clock says what time it is, though a wait is to be measured by it."""


class ClusterMismatchError(DeletionRefusedError):
    """Raised when the cluster id differs from ``expected_cluster_id``."""


class BlastRadiusError(DeletionRefusedError):
    """Raised when a plan holds more segments, bytes or share of the cluster than the limit allows."""


class NotApprovedError(DeletionRefusedError):
    """Raised when a plan needs a person's approval, and no person has approved exactly this plan."""


class StoppedError(DeletionRefusedError):
    """Raised when the kill switch is on, or cannot be read; the message says where it is put back."""


class PlanError(DeletionRefusedError):
    """Raised when a plan cannot be made or read, has expired or was made for another cluster."""


class AuditError(RlmmError):
    """Raised when the audit log cannot be written or read: what is not written down before is not deleted."""

    retriable = True


class RoomError(RlmmError):
    """Raised when this machine lacks the memory or the disk that something takes; the message says what to do."""


class SparkMasterError(RlmmError):
    """Raised when no Spark master answers, or the one that leads takes no driver."""

    retriable = True


class StorageError(RlmmError):
    """Base of errors of the remote storage."""


class StorageRootError(StorageError):
    """Raised when the storage root does not exist or cannot be verified to belong to this cluster."""


class HiddenCopiesError(StorageError):
    """Raised when deleted objects would be kept for good, or the store refuses deletion: versions, or a legal hold."""


class StorageAccessError(StorageError):
    """Raised when authentication fails or the store forbids the call."""


class ArchivedObjectError(StorageAccessError):
    """Raised when an object lies in an archive tier: the store hands it out only after a person had it restored."""


class StorageUnavailableError(StorageError):
    """Raised when the store does not answer, throttles or fails in a way that may pass."""

    retriable = True


class StorageFullError(StorageError):
    """Raised when the store has no room left, or none for this user: it does not pass before room is made."""


class RemoteObjectNotFoundError(StorageError):
    """Raised when an object that must exist does not (Kafka: ``RemoteResourceNotFoundException``)."""


class UnsafeObjectKeyError(StorageError, ValueError):
    """Raised when an object key would leave the declared prefix or does not match the layout's pattern."""


class ForeignPrefixError(UnsafeObjectKeyError):
    """
    Raised when the custom metadata of a segment name a key prefix that the connection does not name.

    :param message: names the segment and the prefix.
    :param prefix: the prefix.
    """

    def __init__(self, message: str, prefix: str) -> None:
        super().__init__(message)
        self.prefix = prefix


class RemoteLogError(RlmmError):
    """Base of errors about the content of remote log segments: reading them, and copying them."""


class DamagedObjectError(RemoteLogError):
    """
    Raised when bytes of a log segment or of an index cannot be what a broker has written: cut, flipped, of another segment.

    :param message: names object and position, and what is wrong.
    :param location: key of the object, or path of the file.
    :param position: first byte that is in doubt, within that object.
    """

    def __init__(self, message: str, location: str, position: int) -> None:
        super().__init__(message)
        self.location = location
        self.position = position


class DamagedContentsError(RemoteLogError):
    """Raised when a scrub of contents has found segments that need a person: damaged, missing, or not to be read."""


class UnsupportedMessageFormatError(RemoteLogError):
    """Raised when record batches are older than message format v2, encrypted, or packed in a way that is not known here."""


class EncryptedSegmentError(UnsupportedMessageFormatError):
    """Raised when a segment is encrypted with a key that only its brokers have."""


class RecordsTooLargeError(RemoteLogError):
    """Raised when records take more memory, once they are unpacked, than the caller allows; the message names the limit."""


class SegmentGoneError(RemoteLogError):
    """Raised when a segment was deleted while it was read, and the offsets asked for are not in the remote log any more."""


class OffsetNotInRemoteLogError(RemoteLogError):
    """Raised when an offset is asked for that no remote segment holds."""


class LogDirectoryError(RemoteLogError):
    """Raised when a log directory of a broker cannot be used: held by a broker, incomplete, damaged, or of another topic."""


class CopyRefusedError(RemoteLogError):
    """Raised when a rule forbids to copy segments of a user partition; the message names the rule and what to do."""


class CopyCancelledError(RemoteLogError):
    """Raised when a copy was cancelled between two chunks, or its quota cannot be kept; nothing of it is left half-said."""


class ArchiveError(RemoteLogError):
    """Raised when an archive is incomplete or does not compare with what was archived: what it holds must not be deleted."""


class CatalogueError(RemoteLogError):
    """Raised when a catalogue of copied segments cannot be written where it is to be, or is not as it was written."""


class RestoreError(RemoteLogError):
    """Raised when a topic cannot hold archived records as they were, or does not hold them after they were written."""
