# SPDX-License-Identifier: Apache-2.0
"""
Fields of a connection of type ``rlmm``, declared: cluster, storage, and what may be done there.

The command has most of them, too: as options, in the environment and in its configuration file. The value object that holds
them, and what they are together, is in :mod:`~airflow_provider_rlmm.core.runs.settings`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from airflow_provider_rlmm.core.base.declarations import Declared, Flag, Text, Whole
from airflow_provider_rlmm.core.plans import limits


class ScheduledRuns(StrEnum):
    """What a run does that was not started by hand: the connection's field ``scheduled_runs``."""

    DRY = "dry"
    REAL = "real"

    @classmethod
    def of(cls, value: str) -> ScheduledRuns:
        """
        Read the field.

        :param value: what was given.
        :raises ConfigurationError: for anything but these two words.
        """
        SCHEDULED_RUNS.check(value)
        return cls(value)


def _text(name: str, title: str, sentence: str) -> Declared[str | None]:
    return Declared(name=name, kind=Text(), default=None, title=title, sentence=sentence)


def _switch(name: str, title: str, sentence: str) -> Declared[bool]:
    return Declared(name=name, kind=Flag(), default=False, title=title, sentence=sentence)


# --- the cluster ------------------------------------------------------------------------------------------------------

KAFKA_CONN_ID: Final = Declared(
    name="kafka_conn_id",
    kind=Text(),
    default="kafka_default",
    title="Kafka connection id",
    sentence="Connection of type kafka that reaches the cluster",
)
METADATA_TOPIC: Final = Declared(
    name="metadata_topic",
    kind=Text(),
    default="__remote_log_metadata",
    title="Metadata topic",
    sentence="The brokers' remote log metadata topic",
)
EXPECTED_CLUSTER_ID: Final = _text("expected_cluster_id", "Expected cluster id", "Refuse to work on any other cluster")

# --- the storage ------------------------------------------------------------------------------------------------------

STORAGE_URI: Final = _text(
    "storage_uri", "Storage URI", "Root of the remote storage, such as s3://bucket/prefix or file:///mnt/tiered"
)
STORAGE_CONN_ID: Final = _text(
    "storage_conn_id",
    "Storage connection id",
    "Connection of type aws, google_cloud_platform or wasb; of any other type, its login, password and extra are obstore's "
    "options",
)
LAYOUT: Final = Declared(
    name="layout",
    kind=Text(),
    default="local-tiered-storage",
    title="Storage layout",
    sentence="How the brokers' storage plugin names its objects: aiven, local-tiered-storage, template",
)
KEY_PREFIX: Final = _text("key_prefix", "Key prefix", "What all keys begin with: key.prefix of Aiven's plugin")
FORMER_KEY_PREFIXES: Final = _text(
    "former_key_prefixes", "Former key prefixes", 'Prefixes of older copies, separated by commas; "" stands for none'
)
KEY_PATTERN: Final = _text(
    "key_pattern",
    "Key pattern",
    "Layout template: such as {topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}",
)
KEY_SUFFIXES: Final = _text(
    "key_suffixes",
    "Key suffixes",
    "Layout template: such as .log, .index, .txnindex? (not with every segment), or /log, /index (in a folder of its own)",
)
PLUGIN_SETTINGS: Final = _text(
    "plugin_settings",
    "Plugin settings",
    "Layout aiven, to copy where no copy of a broker shows it: such as chunk.size=4194304 compression.enabled=true",
)
EXPECTED_ROOT: Final = _text(
    "expected_root",
    "Expected storage root",
    "Refuse any other storage root: for each place its location or root id, as 'rlmm check' prints them",
)

STORAGE_CLASS: Final = _text(
    "storage_class",
    "Storage class",
    "In which class segments lie, as the store names it, such as STANDARD_IA: no listing tells it, costs are reckoned by it",
)
PRICES: Final = _text(
    "prices",
    "Prices",
    'What storage costs, by storage class, for 2^30 bytes in a month: such as {"STANDARD_IA": {"per_gb_month": "0.0125"}}',
)

# --- what may be done there -------------------------------------------------------------------------------------------

ALLOW_WRITES: Final = _switch(
    "allow_writes", "Allow writes", "Off: nothing is written to the metadata topic and nothing is deleted"
)
ALLOW_COPY: Final = _switch(
    "allow_copy",
    "Allow copies",
    "Off: nothing is written about living topics; on: a copier may copy segments that their brokers do not copy",
)
SCHEDULED_RUNS: Final[Declared[str]] = Declared(
    name="scheduled_runs",
    kind=Text(words=tuple(word.value for word in ScheduledRuns)),
    default=ScheduledRuns.DRY.value,
    title="Scheduled runs",
    sentence="What a run of the cleaner does that was not started by hand: dry or real",
)
DELETION_WINDOW: Final = replace(limits.DELETION_WINDOW, title="Deletion window")
HOLD: Final = _text(
    "hold", "Hold", "Topics that are never touched: names, patterns with * and ?, topic ids, separated by commas"
)
SOLE_OWNER: Final = _switch(
    "sole_owner",
    "Sole owner",
    "No other cluster or program keeps objects here: a scrub may delete those of unknown topic ids",
)
ARCHIVE_URI: Final = _text(
    "archive_uri", "Archive URI", "Folder of archives, such as s3://archives/rlmm: outside of the storage root"
)
ARCHIVE_BEFORE_DELETION: Final = _switch(
    "archive_before_deletion",
    "Archive before deletion",
    "Every run of the cleaner archives what it deletes, and deletes nothing that does not compare",
)
AS_IS: Final = "as_is"
ARCHIVE_ENCRYPTED: Final[Declared[str]] = Declared(
    name="archive_encrypted",
    kind=Text(words=("refuse", AS_IS)),
    default="refuse",
    title="Encrypted segments in archives",
    sentence="Archive the objects of encrypted segments as they are (as_is), or refuse their topics",
)
ALLOW_CATALOGUE: Final = _text(
    "allow_catalogue",
    "Allow catalogues",
    "Topics that may be read from a catalogue of the bucket, round the rights that Kafka checks: ids or names, by commas",
)
CLOCK_TOPIC: Final = _text(
    "clock_topic",
    "Clock topic",
    "Topic with message.timestamp.type=LogAppendTime; a record there tells a broker's time",
)

KEEP_SNAPSHOTS: Final = Declared(
    name="keep_snapshots",
    kind=Whole(maximum=1_000),
    default=7,
    title="Snapshots kept",
    sentence="How many earlier snapshots of the metadata topic stay in the work folder, one of a day; 0 keeps none",
)
SNAPSHOTS_URI: Final = _text(
    "snapshots_uri",
    "Second place of snapshots",
    "Folder to which the earlier snapshots of the metadata topic are copied, such as s3://elsewhere/rlmm",
)

FIELDS: Final[tuple[Declared[Any], ...]] = (
    KAFKA_CONN_ID,
    STORAGE_URI,
    STORAGE_CONN_ID,
    LAYOUT,
    KEY_PREFIX,
    EXPECTED_CLUSTER_ID,
    EXPECTED_ROOT,
    ALLOW_WRITES,
    SCHEDULED_RUNS,
    HOLD,
    METADATA_TOPIC,
    FORMER_KEY_PREFIXES,
    KEY_PATTERN,
    KEY_SUFFIXES,
    PLUGIN_SETTINGS,
    STORAGE_CLASS,
    PRICES,
    ALLOW_COPY,
    DELETION_WINDOW,
    limits.OBJECTS_PER_SECOND,
    SOLE_OWNER,
    ARCHIVE_URI,
    ARCHIVE_BEFORE_DELETION,
    ARCHIVE_ENCRYPTED,
    ALLOW_CATALOGUE,
    CLOCK_TOPIC,
    KEEP_SNAPSHOTS,
    SNAPSHOTS_URI,
)
"""In the order of the form: what every connection needs, what a real run needs besides, then what few need."""
