# SPDX-License-Identifier: Apache-2.0
"""Which cluster, which storage and what may be done there: one value object, from every source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_rlmm.core.base.declarations import read_spelled
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import local_path
from airflow_provider_rlmm.core.base.store_uris import is_below, read_store_uri, refuse_secrets_in_uri
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.prices import ReadPrice, StoragePrice, check_prices, read_price, storage_price
from airflow_provider_rlmm.core.runs import connection_fields as declared
from airflow_provider_rlmm.core.world.catalogue_leave import topics_of
from airflow_provider_rlmm.core.world.hold import Hold

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.layouts import LayoutOptions

_DECLARED = {field.name: field for field in declared.FIELDS}
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TOPIC_ALLOWED = "a name that Kafka allows: 1 to 249 letters, digits, dots, dashes and underscores"
_ROOT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z0-9]+://\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSettings:
    """
    One cluster, its remote storage, and what may be done there. It holds no secret.

    :param storage_uri: root of the remote storage, ``None`` if only the metadata topic is used.
    :param layout: name of the storage layout.
    :param key_prefix: what all keys begin with, as the storage plugin is configured; with or without ``/`` at its end.
    :param former_key_prefixes: prefixes under which older copies lie, separated by commas; ``""`` stands for none.
    :param key_pattern: for the layout ``template``: literals and the fields ``{topic}``, ``{topic_id}``, ``{partition}``,
        ``{start_offset:020}``, ``{segment_id}``.
    :param key_suffixes: for the layout ``template``, separated by commas: ``.log, .index, .txnindex?``. A suffix with ``?``
        is optional, ``""`` stands for an object without suffix. If each says which file it is, as in ``.log=log,
        .index=offset``, segments can be read and copied.
    :param plugin_settings: for the layout ``aiven``: the settings of the brokers' plugin, if no copy of a broker shows them:
        ``chunk.size=4194304 compression.enabled=true``.
    :param metadata_topic: name of the metadata topic.
    :param allow_writes: whether anything may be written or deleted.
    :param allow_copy: whether segments of living topics may be copied, which writes events about these topics; it
        also needs ``allow_writes``.
    :param expected_cluster_id: the only cluster to work on, ``None`` for any.
    :param expected_root: the only storage root to work on, as ``rlmm check`` prints it: for each place its location or its
        root id, separated by blanks or commas, or as a JSON list; ``None`` for any.
    :param storage_class: storage class of the segments' objects, as the store names it, because no listing tells it.
        ``None``: that of ``prices``, if they name only one.
    :param prices: a JSON object, or the text of one: storage class → ``per_gb_month``, the price of 2^30 bytes in a month.
        Optional are ``per_1000_requests``, the price of 1,000 list requests; ``per_1000_reads``, of 1,000 read requests;
        ``per_gb_read``, of reading 2^30 bytes; ``min_days``, the least days that are charged for an object;
        and ``min_object_bytes``, the least size that is charged. ``None``: costs by ``price_per_gb_month``, or none.
    :param clock_topic: topic with LogAppendTime; a record is written to it to read a broker's clock. ``None``: an offset is
        committed instead.
    :param hold: topics that are never touched: names, patterns with ``*`` and ``?``, and topic ids, separated by commas.
    :param sole_owner: whether no other program keeps objects of this layout in this storage: then a scrub may delete objects
        of topic ids that the log never named.
    :param deletion_window: time of day at which deletion may run, such as ``22:00-06:00 Europe/Berlin``, for runs that set
        none; ``None`` for any time.
    :param objects_per_second: the most objects that a run deletes in a second, for runs that set nothing; ``None`` for as
        many as the store allows.
    :param archive_uri: folder of archives, outside of the storage root: an absolute path or the URI of an object store.
    :param archive_before_deletion: whether a run of the cleaner must archive everything before it deletes it, even if the
        parameters of the run say otherwise.
    :param archive_encrypted: what an archive does with encrypted segments: ``refuse`` their topics, or keep their objects
        ``as_is``. Only brokers with the key can read such objects, once they are put back into the storage.
    :param allow_catalogue: topics whose records may be read from a catalogue of the bucket: ids, or names that only one topic
        id has, separated by commas; ``None`` for none.
    :param keep_snapshots: how many earlier snapshots of the metadata topic are kept in the work folder, one for each day. A
        lost topic is recovered from them. 0 keeps none.
    :param snapshots_uri: folder to which these are copied, outside of the storage root: an absolute path or the URI of an
        object store; ``None`` for no second place.
    """

    storage_uri: str | None = declared.STORAGE_URI.default
    layout: str = declared.LAYOUT.default
    key_prefix: str | None = declared.KEY_PREFIX.default
    former_key_prefixes: str | None = declared.FORMER_KEY_PREFIXES.default
    key_pattern: str | None = declared.KEY_PATTERN.default
    key_suffixes: str | None = declared.KEY_SUFFIXES.default
    plugin_settings: str | None = declared.PLUGIN_SETTINGS.default
    metadata_topic: str = declared.METADATA_TOPIC.default
    allow_writes: bool = declared.ALLOW_WRITES.default
    allow_copy: bool = declared.ALLOW_COPY.default
    expected_cluster_id: str | None = declared.EXPECTED_CLUSTER_ID.default
    expected_root: str | None = declared.EXPECTED_ROOT.default
    storage_class: str | None = declared.STORAGE_CLASS.default
    prices: str | None = declared.PRICES.default
    clock_topic: str | None = declared.CLOCK_TOPIC.default
    hold: str | None = declared.HOLD.default
    sole_owner: bool = declared.SOLE_OWNER.default
    deletion_window: str | None = declared.DELETION_WINDOW.default
    objects_per_second: int | None = limits.OBJECTS_PER_SECOND.default
    archive_uri: str | None = declared.ARCHIVE_URI.default
    archive_before_deletion: bool = declared.ARCHIVE_BEFORE_DELETION.default
    archive_encrypted: str = declared.ARCHIVE_ENCRYPTED.default
    allow_catalogue: str | None = declared.ALLOW_CATALOGUE.default
    keep_snapshots: int = declared.KEEP_SNAPSHOTS.default
    snapshots_uri: str | None = declared.SNAPSHOTS_URI.default

    def naming(self) -> AbstractContextManager[None]:
        """Return a context manager: errors that leave its block say where these settings come from."""
        return nullcontext()

    @property
    def layout_options(self) -> LayoutOptions:
        """What is said of the layout beside its name."""
        from airflow_provider_rlmm.core.storage.layouts import LayoutOptions

        named = dict(_suffix_and_file(item) for item in _listed(self.key_suffixes))
        return LayoutOptions(
            self.key_prefix or "",
            tuple(_listed(self.former_key_prefixes)),
            self.key_pattern,
            {suffix.removesuffix("?"): not suffix.endswith("?") for suffix in named},
            {suffix.removesuffix("?"): file for suffix, file in named.items() if file},
            self.plugin_settings,
        )

    def storage_price(self, *, of_run: int | None = None, otherwise: int | None = None) -> StoragePrice | None:
        """
        Return by which price storage is reckoned, ``None`` where none is set.

        :param of_run: what storing 2^30 bytes costs in a month by what this run was told, in millionths; it counts first.
        :param otherwise: the same where neither the run nor these settings say it, in millionths.
        :raises ConfigurationError: if prices cannot be read.
        """
        return storage_price(self.prices, self.storage_class, of_run=of_run, otherwise=otherwise)

    def read_price(self) -> ReadPrice | None:
        """
        Return what reading objects costs, ``None`` where it is not set.

        :raises ConfigurationError: if prices cannot be read.
        """
        return read_price(self.prices, self.storage_class)

    def required_storage_uri(self) -> str:
        """
        Return the storage root.

        :raises ConfigurationError: if there is none.
        """
        with self.naming():
            if self.storage_uri is None:
                raise ConfigurationError("storage_uri is missing, and storage is needed here")
            return self.storage_uri

    def required_archive_uri(self) -> str:
        """
        Return the folder of archives.

        :raises ConfigurationError: if there is none.
        """
        with self.naming():
            if self.archive_uri is None:
                raise ConfigurationError(
                    "archive_uri is missing, and an archive is needed here: name a folder outside of the storage root"
                )
            return self.archive_uri.rstrip("/")

    def check_writable(self) -> None:
        """
        Refuse settings that allow writes and do not say to which cluster.

        :raises ConfigurationError: naming the field.
        """
        with self.naming():
            if self.allow_writes and self.expected_cluster_id is None:
                raise ConfigurationError(
                    "allow_writes needs expected_cluster_id, so that nothing is ever written to another cluster; the "
                    "connection's test prints the id to copy"
                )
            if self.allow_copy and not self.allow_writes:
                raise ConfigurationError("allow_copy needs allow_writes: a copier writes to the metadata topic")

    def check(self) -> None:
        """
        Refuse what can be known to be wrong without asking anybody.

        :raises ConfigurationError: naming the field.
        """
        if not _TOPIC_NAME.fullmatch(self.metadata_topic):
            raise refused("metadata_topic", self.metadata_topic, _TOPIC_ALLOWED)
        clock = self.clock_topic
        if clock is not None and (not _TOPIC_NAME.fullmatch(clock) or clock == self.metadata_topic):
            raise refused("clock_topic", clock, f"{_TOPIC_ALLOWED}, and not the metadata topic's")
        self._check_expected_root()
        Hold.of(self.hold)
        declared.DELETION_WINDOW.check(self.deletion_window)
        declared.ARCHIVE_ENCRYPTED.check(self.archive_encrypted)
        declared.KEEP_SNAPSHOTS.check(self.keep_snapshots)
        check_prices(self.prices, self.storage_class)
        self._check_archive()
        self._check_second_place()
        topics_of(self.allow_catalogue)
        if self.storage_uri is None:
            return
        from airflow_provider_rlmm.core.storage.layouts import layout_named

        layout_named(self.layout, self.layout_options)
        advice = "put them into a connection and name it in storage_conn_id"
        refuse_secrets_in_uri("storage_uri", self.storage_uri, advice)
        if not urlsplit(self.storage_uri).scheme:
            raise refused(
                "storage_uri", self.storage_uri, "a URI with a scheme, such as s3://bucket/prefix or file:///folder"
            )

    def _check_expected_root(self) -> None:
        if self.expected_root is None:
            return
        from airflow_provider_rlmm.core.storage.root import expected_roots

        try:
            named = expected_roots(self.expected_root)
        except ValueError:
            named = ()
        if not named or not all(map(_ROOT.fullmatch, named)):
            allowed = (
                "a root id or a location such as s3://bucket/prefix/… for each place, as 'rlmm check' prints them, separated "
                "by blanks or commas"
            )
            raise refused("expected_root", self.expected_root, allowed)

    def _check_archive(self) -> None:
        if self.archive_uri is None:
            if self.archive_before_deletion:
                raise ConfigurationError("archive_before_deletion needs archive_uri, the folder of the archives")
            return
        self._check_outside("archive_uri", self.archive_uri, "what is archived must not lie where segments are deleted")

    def _check_second_place(self) -> None:
        if self.snapshots_uri is None:
            return
        if not self.keep_snapshots:
            raise ConfigurationError("snapshots_uri needs keep_snapshots, which is 0: nothing would be copied there")
        self._check_outside(
            "snapshots_uri", self.snapshots_uri, "a snapshot must not be lost together with the segments"
        )

    def _check_outside(self, name: str, uri: str, why: str) -> None:
        """Refuse a folder that some workers would not find, or that lies in the storage."""
        refuse_secrets_in_uri(name, uri, "stores take credentials from elsewhere, as the work folder does")
        try:
            path = local_path(uri)
        except ConfigurationError as e:
            raise ConfigurationError(f"{name}: {e}") from None
        if path is not None and not path.is_absolute():
            raise refused(name, uri, "an absolute path or a URI: every worker must find the same folder")
        if self.storage_uri is not None and _overlap(uri, self.storage_uri):
            raise refused(name, uri, f"a folder outside of storage_uri: {why}")


def _overlap(first: str, second: str) -> bool:
    """Tell whether one of two folders lies below the other, or both are the same."""
    here, there = local_path(first), local_path(second)
    if here is None or there is None:
        one_uri, other_uri = read_store_uri(first).uri, read_store_uri(second).uri
        return here is there and (is_below(one_uri, other_uri) or is_below(other_uri, one_uri))
    one, other = here.resolve(), there.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)


def read_fields(kind: type[RemoteLogSettings], given: Mapping[str, Any], without: frozenset[str]) -> dict[str, Any]:
    """
    Return the fields of settings that are given, blank ones left out, each of its type.

    :param kind: the settings that are to be made of them.
    :param given: name → value, as they were written down.
    :param without: fields that are not written there.
    :raises ConfigurationError: naming the field.
    """
    known = [f.name for f in fields(kind) if f.name not in without]
    kept = {k: v for k, v in given.items() if v is not None and str(v).strip()}
    if unknown := sorted(kept.keys() - set(known)):
        raise ConfigurationError(f"unknown fields {unknown}; known are {known}")
    # A document may hold the roots as a list, and prices as names with values.
    plain = {"expected_root": list, "prices": dict}
    written = {k: json.dumps(v) if isinstance(v, plain.get(k, ())) else v for k, v in kept.items()}
    return {name: read_spelled(_DECLARED[name], value) for name, value in written.items()}


def _suffix_and_file(item: str) -> tuple[str, str]:
    suffix, _, file = item.partition("=")
    return suffix.strip().replace('""', ""), file.strip()


def _listed(text: str | None) -> list[str]:
    """Return what stands between commas; ``""`` is an empty item."""
    items = [item.strip() for item in (text or "").split(",")]
    return ["" if item == '""' else item for item in items if item]
