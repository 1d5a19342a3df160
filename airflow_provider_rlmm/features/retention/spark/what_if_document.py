# SPDX-License-Identifier: Apache-2.0
"""
The document of what leaders would delete under other retention settings: in the folder of the run that has tried them.

It is bounded, for a cluster of any size: sums are of all topics, lists name those that differ most. Nothing that deletes
reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AtMost, LongText, Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.prices import StoragePrice
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.features.retention.spark.what_if import MAX_SCENARIOS, Difference, WhatWouldGo

WHAT_IF_DOCUMENT: Final = "what-if.json"
"""In the folder of a run of the Spark job that was told other settings."""

MAX_LISTED: Final = 1_000
"""Topics that are listed of each settings; all are counted."""

MAX_DOUBTS: Final = 100
"""Reasons that are told why the log may lack records."""

MAX_BYTES: Final = 64 * 2**20

_FORMAT: Final = 1

_Signed = Annotated[int, strict.signed]


@dataclass(frozen=True, slots=True)
class TriedTopic:
    """What would go of one topic, beside what goes by the settings that it has."""

    topic: LongText
    now: Count
    then: Count
    saved_micros: _Signed | None  # a month, in millionths of the price's currency; ``None`` where there is no price

    @classmethod
    def of(cls, found: Difference, price_micros: int | None) -> TriedTopic:
        """
        Report a topic.

        :param found: what goes of it.
        :param price_micros: what storing 2^30 bytes costs in a month, in millionths; ``None`` where it is not set.
        """
        return cls(found.topic, found.now, found.then, saved_micros(found.more_bytes, price_micros))


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """What would go under some settings."""

    settings: LongText  # as they were given; the first ones are those that topics have
    goes: Count
    by_reason: Mapping[Text, Count]  # by the name of the reason
    more_segments: _Signed  # than go by the settings that topics have
    more_bytes: _Signed
    saved_micros: _Signed | None  # as :class:`TriedTopic` has it, of all topics
    topics: int  # of which more or less goes
    listed_topics: Annotated[tuple[TriedTopic, ...], AtMost(MAX_LISTED)]  # the largest differences in bytes first

    @classmethod
    def of(cls, found: WhatWouldGo, now: WhatWouldGo, price_micros: int | None) -> TriedSettings:
        """
        Report settings.

        :param found: what would go.
        :param now: what goes by the settings that topics have.
        :param price_micros: what storing 2^30 bytes costs in a month, in millionths; ``None`` where it is not set.
        """
        differ, goes = found.differences(now), found.goes
        more_bytes = goes.bytes - now.goes.bytes
        return cls(
            settings=found.scenario.text,
            goes=goes,
            by_reason=dict(sorted(found.by_reason.items())),
            more_segments=goes.segments - now.goes.segments,
            more_bytes=more_bytes,
            saved_micros=saved_micros(more_bytes, price_micros),
            topics=len(differ),
            listed_topics=tuple(TriedTopic.of(one, price_micros) for one in differ[:MAX_LISTED]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfDocument:
    """
    What leaders would delete under other settings. All counts are estimates: leaders know more.

    :param cluster_id: the cluster.
    :param generation: number of the generation that the settings were tried over.
    :param created_at_ms: when that was read, ms since the epoch.
    :param evaluated_at_ms: the time of the evaluation, ms since the epoch.
    :param price_micros: what storing 2^30 bytes costs in a month, in millionths; ``None`` where it is not set.
    :param uncertain_segments: segments that are in no count, as it is not known what became of them.
    :param doubts: why the log may lack records, the first reasons.
    :param tried: the settings; the first ones are those that topics have.
    """

    cluster_id: Text
    generation: int
    created_at_ms: int
    evaluated_at_ms: int
    price_micros: int | None
    uncertain_segments: int
    doubts: Annotated[tuple[LongText, ...], AtMost(MAX_DOUBTS)]
    tried: Annotated[tuple[TriedSettings, ...], AtMost(MAX_SCENARIOS + 1)]

    @classmethod
    def of(
        cls,
        generation: Generation,
        found: Sequence[WhatWouldGo],
        *,
        evaluated_at_ms: int,
        refusals: Sequence[Refusal] = (),
        price_micros: int | None = None,
    ) -> WhatIfDocument:
        """
        Report settings.

        :param generation: that they were tried over.
        :param found: what would go, the settings that topics have first.
        :param evaluated_at_ms: ms since the epoch.
        :param refusals: why the log may lack records.
        :param price_micros: what storing 2^30 bytes costs in a month, in millionths; ``None`` where it is not set.
        """
        return cls(
            cluster_id=generation.cluster_id,
            generation=generation.number,
            created_at_ms=generation.created_at_ms,
            evaluated_at_ms=evaluated_at_ms,
            price_micros=price_micros,
            uncertain_segments=sum(part.unresolved for part in generation.parts.values()),
            doubts=tuple(f"{r.what}: {r.why}; {r.what_to_do}" for r in refusals[:MAX_DOUBTS]),
            tried=tuple(TriedSettings.of(one, found[0], price_micros) for one in found),
        )

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict.sealed(plain_of(self), _FORMAT), indent=1)

    @classmethod
    def from_json(cls, text: str) -> WhatIfDocument:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not.
        """
        try:
            return _READ(strict.unsealed(text, _FORMAT), "what-if")
        except ValueError as e:
            raise DocumentError(f"what other settings would delete cannot be read ({e}); run the job again") from e

    def in_short(self) -> dict[str, Any]:
        """Return what it says of all topics together: small enough for an XCom."""
        return {
            "estimated": True,
            "generation": self.generation,
            "uncertain_segments": self.uncertain_segments,
            "doubts": len(self.doubts),
            "tried": [
                {
                    "settings": one.settings,
                    "segments": one.goes.segments,
                    "bytes": one.goes.bytes,
                    "more_segments": one.more_segments,
                    "more_bytes": one.more_bytes,
                    "topics": one.topics,
                    "saved_micros": one.saved_micros,
                }
                for one in self.tried
            ],
        }


def saved_micros(more_bytes: int, price_micros: int | None) -> int | None:
    """
    Return what is saved in a month where more bytes go, in millionths of the price's currency; ``None`` without a price.

    :param more_bytes: may be negative.
    :param price_micros: what storing 2^30 bytes costs in a month, in millionths; ``None`` where it is not set.
    """
    return None if price_micros is None else StoragePrice(price_micros).month(more_bytes)


_READ = reader_of(WhatIfDocument)
