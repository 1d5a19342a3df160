# SPDX-License-Identifier: Apache-2.0
"""How much a catalogue names: per kind, per topic, and below each folder that was not listed whole. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from airflow_provider_rlmm.core.plans.catalogue_document import (
    CatalogueAmount,
    CatalogueTopic,
    UnlistedFolder,
)
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, RowKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str


class CatalogueTally:
    """
    Counts rows; memory grows with the topics, not with the rows.

    :param broken: folder that was not listed whole → why.
    """

    def __init__(self, broken: Mapping[str, str]) -> None:
        self._broken = broken
        self.kinds: dict[str, CatalogueAmount] = {kind.value: CatalogueAmount() for kind in RowKind}
        """Rows per kind, all kinds."""
        self._seen = dict.fromkeys(broken, CatalogueAmount())
        self._topics: dict[tuple[str | None, UUID], CatalogueTopic] = {}

    def note(self, row: CatalogueRow) -> None:
        """
        Count a row.

        :param row: as it is written.
        """
        amount = CatalogueAmount(1, len(row.keys), row.stored_bytes)
        self.kinds[row.kind] += amount
        if self._broken and row.keys and (folder := self._folder_of(row.keys[0])) is not None:
            self._seen[folder] += amount
        if row.topic_id is None:
            return
        named = row.topic, row.topic_id
        known = self._topics.get(named) or CatalogueTopic(
            row.topic, kafka_uuid_str(row.topic_id), CatalogueAmount(), 0, 0
        )
        self._topics[named] = CatalogueTopic(
            known.topic,
            known.topic_id,
            known.whole + amount if row.kind.is_whole else known.whole,
            known.log_bytes + (row.segment_size_in_bytes or 0 if row.kind.is_whole else 0),
            known.needs_person + row.kind.needs_person,
        )

    def _folder_of(self, key: str) -> str | None:
        """Return the deepest folder above a key that was not listed whole."""
        end = len(key)
        while (end := key.rfind("/", 0, end)) >= 0:
            if key[: end + 1] in self._broken:
                return key[: end + 1]
        return "" if "" in self._broken else None

    def topics(self) -> list[CatalogueTopic]:
        """Return the topics, by name and id."""
        return sorted(self._topics.values(), key=lambda topic: (topic.topic or "", topic.topic_id))

    def several_ids(self) -> list[str]:
        """Return the names that more than one topic id has, sorted."""
        names = Counter(topic for topic, _ in self._topics if topic is not None)
        return sorted(name for name, ids in names.items() if ids > 1)

    def incomplete(self) -> list[UnlistedFolder]:
        """Return the folders that were not listed whole, with what was seen below them all the same."""
        return [UnlistedFolder(folder, why, self._seen[folder]) for folder, why in sorted(self._broken.items())]
