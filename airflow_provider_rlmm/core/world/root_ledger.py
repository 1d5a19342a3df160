# SPDX-License-Identifier: Apache-2.0
"""
Which storage roots runs have worked on, and since when a work folder knows where they lie: a small document per cluster.

Of each place only the latest counts: who goes back to an older root has to prove it again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.file_systems import read_file, replace_file
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.world.current_root import FirstSeen

logger = logging.getLogger(__name__)

ROOTS_DOCUMENT = "roots.json"
_MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class _Document:
    root_ids: Mapping[str, str]  # name of the place → id of the root that was verified last
    locations: Mapping[str, FirstSeen]  # name of the place → since when it is known where it lies


def recorded_roots(uri: str, cluster_id: str) -> frozenset[str]:
    """
    Return the root ids that the latest runs have recorded, one per place.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :raises PlanError: if the document is there and cannot be read, or is another cluster's.
    """
    return frozenset(_read(uri, cluster_id).root_ids.values())


def record_roots(uri: str, cluster_id: str, root_ids: Mapping[str, str]) -> None:
    """
    Record the root that was verified in this run.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :param root_ids: name of the place → its root id; what is known is not written again.
    :raises PlanError: if the document is there and cannot be read.
    :raises OSError: if it cannot be written; the older one is still there.
    """
    known = _read(uri, cluster_id)
    if (latest := {**known.root_ids, **root_ids}) != known.root_ids:
        _write(uri, cluster_id, _Document(latest, known.locations))


@dataclass(frozen=True, slots=True)
class WorkFolderLedger:
    """
    Remembers in the work folder since when places lie where they do.

    :param uri: of the cluster's folder.
    :param cluster_id: the cluster.
    :param clock: time.
    """

    uri: str
    cluster_id: str
    clock: Clock

    def seen(self, places: Mapping[str, str], log: MetadataLogReader) -> Mapping[str, FirstSeen]:
        """
        See :class:`~airflow_provider_rlmm.core.world.current_root.PlaceLedger`; a place that cannot be written down is new
        next time.
        """
        known = _read(self.uri, self.cluster_id)
        topic_id = log.topic_id
        new = {
            place: FirstSeen(where, self.clock(), topic_id, dict(log.high_water_marks()))
            for place, where in places.items()
            if (first := known.locations.get(place)) is None or (first.where, first.topic_id) != (where, topic_id)
        }
        latest = {**known.locations, **new}
        if new:
            try:
                _write(self.uri, self.cluster_id, _Document(known.root_ids, latest))
            except OSError as e:
                logger.warning(
                    "%s/%s cannot be written, the next run will not know this root: %s",
                    self.uri,
                    ROOTS_DOCUMENT,
                    e,
                )
        return latest


def _read(uri: str, cluster_id: str) -> _Document:
    try:
        document = json.loads(bytes(read_file(f"{uri}/{ROOTS_DOCUMENT}", _MAX_BYTES)))
        roots: dict[str, str] = document["root_ids"]
        if document["cluster_id"] != cluster_id or not all(isinstance(root, str) for root in roots.values()):
            raise ValueError("it is not this cluster's")
        # Earlier versions knew no locations: these count from the next look on.
        return _Document(roots, {place: _first_seen(plain) for place, plain in document.get("locations", {}).items()})
    except FileNotFoundError:
        return _Document({}, {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise PlanError(
            f"{uri}/{ROOTS_DOCUMENT}, the storage roots that earlier runs have recorded, cannot be read ({e}); remove it, "
            "and set expected_root of the rlmm connection to what 'rlmm check' prints"
        ) from e


def _first_seen(plain: Any) -> FirstSeen:
    where, at_ms, ends = plain["where"], plain["at_ms"], {int(n): end for n, end in plain["ends"].items()}
    if not isinstance(where, str) or not all(type(n) is int and n >= 0 for n in (at_ms, *ends, *ends.values())):
        raise ValueError("a location is none")
    return FirstSeen(where, at_ms, UUID(plain["topic_id"]), ends)


def _write(uri: str, cluster_id: str, document: _Document) -> None:
    locations = {
        place: {**asdict(first), "topic_id": str(first.topic_id)} for place, first in document.locations.items()
    }
    plain = {"cluster_id": cluster_id, "root_ids": dict(document.root_ids), "locations": locations}
    replace_file(f"{uri}/{ROOTS_DOCUMENT}", [json.dumps(plain, indent=2).encode()])
