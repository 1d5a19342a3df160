# SPDX-License-Identifier: Apache-2.0
"""The era of the log that a document was made in; :class:`~airflow_provider_rlmm.core.records.era.LogEra` explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_rlmm.core.base.documents import Text


class EraName(StrEnum):
    """Names of the eras in documents."""

    PLAIN = "plain"
    KEYED = "keyed"
    COMPACTED = "compacted"


@dataclass(frozen=True, slots=True)
class ToldEra:
    """An era, and what showed it."""

    name: EraName  # of the era
    why: Text  # what showed it, in words

    @property
    def is_plain(self) -> bool:
        """Whether nothing showed that the log may have lost records by intention."""
        return self.name is EraName.PLAIN

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def without_unsaid_era(document: Mapping[str, Any]) -> dict[str, Any]:
    """
    Leave out an era that was not told: a sealed document of an earlier release has no such field, and keeps the checksum
    by which others name it.

    :param document: with a field ``era``, as plain JSON types.
    """
    return {name: value for name, value in document.items() if name != "era" or value is not None}
