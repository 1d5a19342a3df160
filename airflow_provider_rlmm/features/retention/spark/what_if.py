# SPDX-License-Identifier: Apache-2.0
"""Other retention settings, evaluated over a generation: the metadata topic is not read again, and no cluster is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.declarations import Declared, Texts
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.values import MAX_INTEGER, refused
from airflow_provider_rlmm.core.generations.manifest import Generation, NumberedPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count, sums_by
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.columns import WHAT_IF_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

Task = Callable[[NumberedPart], Iterable["pa.RecordBatch"]]
"""What is done with one metadata partition of a generation."""

Worker = Callable[[Sequence[NumberedPart], Task, tuple[tuple[str, str], ...]], Iterable[Any]]
"""
Does a task for each metadata partition and returns the rows of all, whose columns have these names and Arrow types:
:func:`~airflow_provider_rlmm.features.retention.spark.segments.per_piece` with a session, or :func:`in_process`.
"""

MAX_SCENARIOS: Final = 20
"""That one run of the job tries."""

PATTERN: Final = r"^([^:]+:)?( *retention\.(ms|bytes) *= *(-1|[0-9]{1,19}) *(,(?=.)|$)){1,2}$"
"""Of settings as they are written, for forms; :meth:`Scenario.parse` reads them."""

_LIMIT: Final = re.compile(r"-1|[0-9]{1,19}", re.ASCII)
_SETTINGS = {"retention.ms": "retention_ms", "retention.bytes": "retention_bytes"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Settings that some topics would have; what is not given stays as it is."""

    text: str  # as it was given
    topics: str  # a pattern of topic names, in which ``*`` stands for anything
    changes: Mapping[str, Any]  # fields of :class:`~airflow_provider_rlmm.core.world.cluster_state.ListedTopic`

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """
        Read settings such as ``retention.ms=86400000`` or ``orders-*:retention.ms=-1,retention.bytes=1000000``.

        :raises ConfigurationError: for anything else.
        """
        head, colon, tail = text.partition(":")
        topics, settings = (head, tail) if colon else ("*", text)
        changes: dict[str, int] = {}
        for setting in settings.split(","):
            name, _, value = (part.strip() for part in setting.partition("="))
            known = name in _SETTINGS and _SETTINGS[name] not in changes
            if not known or not _LIMIT.fullmatch(value) or int(value) > MAX_INTEGER:
                raise ConfigurationError(
                    f"settings {in_quotes(text)} must be of the form [TOPICS:]retention.ms=N[,retention.bytes=N], -1 for no "
                    "limit"
                )
            changes[_SETTINGS[name]] = int(value)
        return cls(text, topics, changes)

    def applied(self, state: ClusterState) -> ClusterState:
        """
        Return the listing as it would be.

        :param state: as it is.
        :raises ConfigurationError: if no topic of it is meant.
        """
        if not any(fnmatchcase(topic.name, self.topics) for topic in state.topics):
            raise ConfigurationError(
                f"settings {in_quotes(self.text)}: none of the {number_of(len(state.topics), 'topic')} of the listing "
                f"is called {in_quotes(self.topics)}; in a pattern * stands for anything"
            )
        changed = (
            replace(topic, **self.changes) if fnmatchcase(topic.name, self.topics) else topic for topic in state.topics
        )
        return replace(state, topics=tuple(changed))


AS_LISTED = Scenario("as it is", "*", {})
"""Changes nothing: what the others are compared with."""


def read_settings(name: str, value: object) -> tuple[str, ...]:
    """
    Return texts that :meth:`Scenario.parse` reads, once each.

    :param name: what the error calls them.
    :param value: a list of texts, or one as JSON, which a template can render.
    :raises ConfigurationError: for anything else, and for settings that are not understood.
    """
    allowed = f"a list of at most {MAX_SCENARIOS} texts, such as orders-*:retention.ms=86400000, or one as JSON"
    try:
        given = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise refused(name, value, allowed) from None
    if not isinstance(given, list | tuple) or len(given) > MAX_SCENARIOS:
        raise refused(name, value, allowed)
    for text in given:
        if not isinstance(text, str):
            raise refused(name, text, allowed)
        try:
            Scenario.parse(text)
        except ConfigurationError as e:
            raise ConfigurationError(f"{name}: {e}") from None
    return tuple(dict.fromkeys(given))


WHAT_IF: Final[Declared[tuple[str, ...]]] = Declared(
    name="what_if",
    kind=Texts(read_settings, pattern=PATTERN),
    default=(),
    title="Other retention settings",
    sentence=(
        "Say what leaders would delete under these: [TOPICS:]retention.ms=N[,retention.bytes=N], such as "
        "orders-*:retention.ms=86400000; -1 for no limit, without TOPICS all topics"
    ),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """What goes of a topic by a scenario, beside what goes by the settings that it has."""

    topic: str  # its name
    now: Count  # by the settings that it has
    then: Count  # by the scenario

    @property
    def more_segments(self) -> int:
        """How many more go by the scenario; may be negative."""
        return self.then.segments - self.now.segments

    @property
    def more_bytes(self) -> int:
        """How many bytes more go by the scenario; may be negative."""
        return self.then.bytes - self.now.bytes


@dataclass(frozen=True, slots=True)
class WhatWouldGo:
    """What a scenario comes to, for topics of the listing."""

    scenario: Scenario  # the settings
    by_reason: Mapping[str, Count]  # per :class:`~airflow_provider_rlmm.core.plans.plan.Reason`
    by_topic: Mapping[str, Count]  # per topic name

    @property
    def goes(self) -> Count:
        """All that would go."""
        return Count.sum(self.by_topic.values())

    def differences(self, now: WhatWouldGo) -> list[Difference]:
        """
        Return the topics of which more or less goes, the largest differences first.

        :param now: what goes by the settings that topics have.
        """
        names = {**now.by_topic, **self.by_topic}
        found = (Difference(t, now.by_topic.get(t, NOTHING), self.by_topic.get(t, NOTHING)) for t in names)
        differ = (one for one in found if one.now != one.then)
        return sorted(differ, key=lambda one: (-abs(one.more_bytes), one.topic))

    def document(self) -> dict[str, Any]:
        """Return plain JSON; leaders delete, and know more, so that all of it is an estimate."""
        counts = {"by_reason": self.by_reason, "by_topic": self.by_topic}
        return {"settings": self.scenario.text, "estimated": True} | {
            name: {key: {"segments": c.segments, "bytes": c.bytes} for key, c in sorted(found.items())}
            for name, found in counts.items()
        }


def choose_generation(store: GenerationStore, number: int | None) -> Generation:
    """
    Return a generation's manifest.

    :param store: the data set.
    :param number: which one, ``None`` for the newest.
    :raises PlanError: if there is none.
    :raises SnapshotRefusedError: if its manifest cannot be read.
    """
    numbers = store.numbers()
    if not numbers or (number is not None and number not in numbers):
        raise PlanError(f"{store.uri} has the generations {numbers}; let the job write one first")
    return store.read(numbers[0] if number is None else number)


def in_process(parts: Sequence[NumberedPart], task: Task, _: tuple[tuple[str, str], ...]) -> Iterable[Any]:
    """Do a task for one metadata partition after the other here; see :data:`Worker`."""
    return [row for part in parts for batch in task(part) for row in batch.to_pylist()]


def what_if(
    worker: Worker,
    store: GenerationStore,
    generation: Generation,
    state: ClusterState,
    limits: EvaluationLimits,
    scenarios: Sequence[Scenario],
) -> list[WhatWouldGo]:
    """
    Evaluate scenarios over a generation, one task per metadata partition.

    What is orphaned is left out: that takes the cluster's answer. So are segments whose state is not certain.

    :param worker: does the tasks.
    :param store: the data set.
    :param generation: its manifest.
    :param state: a listing of the same cluster.
    :param limits: time and minimum age.
    :param scenarios: what would hold.
    :raises ClusterMismatchError: if the listing is another cluster's.
    :raises ConfigurationError: if a scenario means no topic of it.
    :raises SnapshotRefusedError: if a file of the generation is not the one that its manifest names.
    """
    from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation

    if state.cluster_id != generation.cluster_id:
        raise ClusterMismatchError(
            f"the listing is of cluster {state.cluster_id!r}, generation {generation.number} of {generation.cluster_id!r}"
        )
    folder, count = store.root, len(generation.parts)
    evaluations = [Evaluation(count, scenario.applied(state), limits) for scenario in scenarios]

    def task(numbered: NumberedPart) -> Iterable[pa.RecordBatch]:
        from airflow_provider_rlmm.features.retention.spark.executor.what_if import count_what_goes

        return count_what_goes(folder, numbered, evaluations)

    rows = list(worker(generation.known, task, WHAT_IF_COLUMNS)) if generation.known else []
    found = []
    for number, scenario in enumerate(scenarios):
        mine = [row for row in rows if row["scenario"] == number]
        found.append(WhatWouldGo(scenario, sums_by("reason", mine), sums_by("topic", mine)))
    return found
