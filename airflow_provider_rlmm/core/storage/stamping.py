# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the stamps of the places of a layout; the caller sees to it that the root stays the same one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import RemoteObjectNotFoundError, StorageError, StorageRootError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.object_calls import ObjectCalls
from airflow_provider_rlmm.core.storage.root import Place, PlaceLook, RootCheck, StampOutcome, StampResult
from airflow_provider_rlmm.core.storage.stamps import STAMP_FOLDER, Stamp, cluster_in, stamp_key


class Stamps:
    """
    The stamps beside the places of a layout.

    :param calls: the calls to the store.
    :param layout: whose places they are.
    """

    def __init__(self, calls: ObjectCalls, layout: Layout) -> None:
        self._calls = calls
        self._layout = layout

    def look_at(self, place: Place, cluster_id: str) -> PlaceLook:
        """
        Read the stamp of a place.

        :raises StorageError: if it cannot be read.
        """
        try:
            raw = self._calls.get(stamp_key(cluster_id, place.name))
        except RemoteObjectNotFoundError:
            raw = None
        return PlaceLook(cluster_id, self._layout.name, place, self._calls.location(place.prefix), raw)

    def clusters(self) -> Mapping[str, bool]:
        """
        Return the clusters of which a stamp of this layout lies here: cluster id → whether one may be believed, as it says
        that it lies where it does.

        :raises StorageError: if they cannot be listed or read.
        """
        named = {cluster_in(stored.key) for stored in self._calls.objects(STAMP_FOLDER)}
        return {cluster: self._is_believed(cluster) for cluster in sorted(filter(None, named))}

    def _is_believed(self, cluster_id: str) -> bool:
        for look in [self.look_at(place, cluster_id) for place in self._layout.places]:
            # Of a stamp of another location, cluster or layout it says why; here that it is one is enough.
            with suppress(StorageRootError):
                if look.stamp() is not None:
                    return True
        return False

    def stamp(self, place: Place, check: RootCheck) -> StampResult:
        """
        Write the stamp of a verified place, or have the one that is there name the metadata topic.

        :param place: which one.
        :param check: what was found out about the root.
        :raises StorageRootError: if the root is gone, or a stamp that names another location has appeared.
        """
        look = self.look_at(place, check.cluster_id)
        stamp = look.stamp(move_stamp=check.move_stamp)
        if stamp is not None:
            return self._named(stamp, check.metadata_topic_id)
        new, why = look.new_stamp(check.metadata_topic_id), "the store does not show what it says is there"
        try:
            if self._calls.put_if_absent(new.key, new.to_json(), replace=look.raw_stamp is not None):
                return StampResult(place.name, StampOutcome.WRITTEN, new.root_id)
        except StorageRootError:
            raise
        except StorageError as e:
            why = str(e)
        # Another run was faster, or only the answer was lost.
        stamp = self._stamp_again(place, check.cluster_id)
        if stamp is None:
            return _unwritable(new, why)
        return StampResult(place.name, StampOutcome.ALREADY_THERE, stamp.root_id)

    def _named(self, stamp: Stamp, topic_id: UUID | None) -> StampResult:
        """Have a stamp name the metadata topic where it names none yet."""
        if topic_id is None or stamp.metadata_topic_id is not None:
            return StampResult(stamp.place, StampOutcome.ALREADY_THERE, stamp.root_id)
        try:
            # Of two runs that do so at once the later one stays; where they differ the next run is refused.
            self._calls.put_if_absent(stamp.key, stamp.naming(topic_id).to_json(), replace=True)
        except StorageRootError:
            raise
        except StorageError as e:
            return _nameless(stamp, str(e))
        return StampResult(stamp.place, StampOutcome.WRITTEN, stamp.root_id)

    def _stamp_again(self, place: Place, cluster_id: str) -> Stamp | None:
        try:
            # One that was to be replaced and is still there was reported when the root was checked.
            return self.look_at(place, cluster_id).stamp(move_stamp=True)
        except StorageRootError:
            raise
        except StorageError:
            return None

    def topics(self, cluster_id: str) -> Mapping[str, UUID]:
        """
        Return key of the stamp → id of the metadata topic, of the stamps that name one.

        One that names another location counts as well: whose storage it is is another question.

        :raises StorageError: if one cannot be read.
        """
        looks = [self.look_at(place, cluster_id) for place in self._layout.places]
        stamps = [(look.stamp_key, look.read_stamp) for look in looks]
        return {key: stamp.metadata_topic_id for key, stamp in stamps if stamp and stamp.metadata_topic_id}

    def confirm(self, cluster_id: str, topic_id: UUID, by: str, at_ms: int) -> None:
        """
        Have the stamps that name another metadata topic name this one.

        :param cluster_id: the cluster.
        :param topic_id: id of the metadata topic.
        :param by: who has confirmed it.
        :param at_ms: when, ms since the epoch.
        :raises StorageError: naming the stamp that cannot be read or written, or that another run has written meanwhile.
        """
        for place in self._layout.places:
            stamp = self.look_at(place, cluster_id).read_stamp
            if stamp is None or stamp.metadata_topic_id in (None, topic_id):
                continue
            key = stamp_key(cluster_id, place.name)
            new = stamp.confirmed(topic_id, by, at_ms)
            try:
                self._calls.put_if_absent(key, new.to_json(), replace=True)
            except StorageRootError:
                raise
            except StorageError as e:
                raise type(e)(
                    f"stamp {key} cannot be written: {e}; it is to name metadata topic {kafka_uuid_str(topic_id)}, as was "
                    "confirmed, and nothing is done before it does: let the principal write it, or put it there by hand"
                ) from e
            now = self.look_at(place, cluster_id).read_stamp
            if now is None or now.metadata_topic_id != topic_id:
                raise StorageRootError(
                    f"stamp {key} was written by another run meanwhile, and does not name metadata topic "
                    f"{kafka_uuid_str(topic_id)}: nothing is done; see that no other run goes on, then confirm it again"
                )


def _unwritable(stamp: Stamp, reason: str) -> StampResult:
    return StampResult(
        stamp.place,
        StampOutcome.CANNOT_BE_WRITTEN,
        None,
        f"stamp {stamp.key} cannot be written: {reason}. Where it never can be (a read-only or locked bucket), set "
        f"expected_root of the rlmm connection to {stamp.where}; until then, once no object of the cluster is left to verify "
        "the root by, nothing is declared deleted that was not seen",
    )


def _nameless(stamp: Stamp, reason: str) -> StampResult:
    return StampResult(
        stamp.place,
        StampOutcome.CANNOT_BE_WRITTEN,
        stamp.root_id,
        f"stamp {stamp.key} cannot be written: {reason}. It does not name the metadata topic: a run with another work folder "
        "cannot tell by it that the topic was made anew",
    )
