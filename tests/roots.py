# SPDX-License-Identifier: Apache-2.0
"""What tests know of a storage root before they look at it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.world.current_root import FirstSeen


class KnownFromTheBeginning:
    """The ledger of a work folder that knew where each place lies before anything was copied there."""

    def seen(self, places: Mapping[str, str], log: MetadataLogReader) -> Mapping[str, FirstSeen]:
        """Return the places as they were then."""
        ends = dict.fromkeys(range(log.partition_count), 0)
        return {place: FirstSeen(where, 0, log.topic_id, ends) for place, where in places.items()}


KNOWN_FROM_THE_BEGINNING = KnownFromTheBeginning()


def naming(storage: RemoteStorageManager, cluster_id: str) -> RootExpectation:
    """
    Name every place of a storage where it lies now, as somebody does who takes a wait away.

    :param storage: the storage.
    :param cluster_id: whose it is.
    """
    places = storage.check_root(frozenset(), cluster_id).places
    return RootExpectation(expected_root=" ".join(str(check.where) for check in places))


@pytest.fixture(autouse=True)
def the_work_folder_is_older_than_all_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs know where the storage lies since before anything was copied there; a conftest imports this by its name."""
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession

    monkeypatch.setattr(CleanerSession, "root_ledger", KNOWN_FROM_THE_BEGINNING)
