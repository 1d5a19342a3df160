# SPDX-License-Identifier: Apache-2.0
"""
The step of a scrub of contents: the log says which segments are copied, some or all of them are read, and the log is read
again before anything that is not there, or not right, is called damage. Nothing is written to the log or to the storage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.plan_files import write_document
from airflow_provider_rlmm.core.plans.storage_classes import ARCHIVE_TIERS
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.holding import require_known_topic
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.contents.foretold import Foretold, foretell
from airflow_provider_rlmm.features.contents.report_document import (
    CONTENTS_DOCUMENT,
    MAX_LISTED,
    ContentsAmount,
    ContentsReport,
)
from airflow_provider_rlmm.features.contents.rules import AT_ONCE, Choice, Outcome

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay
    from airflow_provider_rlmm.features.contents.chosen import CopiedSegments
    from airflow_provider_rlmm.features.contents.looking import Look
    from airflow_provider_rlmm.features.contents.storage_source import PacedStorage
    from airflow_provider_rlmm.features.contents.tally import ContentsTally, Topic

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 60.0
"""Seconds for which a storage that does not answer is asked again for one read."""

OnStep = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsRequest:
    """
    What is asked for.

    :param choice: which segments are looked at.
    :param may_have_gaps: whether missing offsets count as none: topics that were compacted once.
    :param bytes_per_second: the most that is fetched in a second, ``None`` for as much as the store gives.
    :param at_once: segments that are looked at at once.
    """

    choice: Choice
    may_have_gaps: bool = False
    bytes_per_second: int | None = None
    at_once: int = AT_ONCE


def verify_contents(
    session: CleanerSession,
    uri: str,
    name: str,
    request: ContentsRequest,
    on_step: OnStep = lambda *_: None,
    *,
    on_foretold: Callable[[Foretold], object] = lambda _: None,
    patience: StoragePatience | None = None,
) -> ContentsReport:
    """
    Look at copied segments, and write the report.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param name: of the run.
    :param request: what is asked for.
    :param on_step: told how far it is.
    :param on_foretold: told what will be asked of the storage, before it is.
    :param patience: for how long a storage that does not answer is asked again.
    :return: the report, as it was written.
    :raises ConfigurationError: if only topics are asked for that neither log nor cluster knows.
    :raises EventLogError: if the log cannot be read.
    :raises StorageError: if the storage root is gone, or the storage hands out nothing many times in a row.
    :raises OSError: if the report cannot be written.
    """
    from airflow_provider_rlmm.features.contents.last_looks import keep_last_looks, read_last_looks
    from airflow_provider_rlmm.features.contents.storage_source import Fetched, PacedStorage

    began_at_ms, fetched = session.clock(), Fetched()
    with step(uri, "verify"), session.topic() as topic:
        topic.advance()
        manager = session.storage.get_storage_manager()
        storage = PacedStorage(
            manager, patience or StoragePatience(PATIENCE_S), ByteQuota(request.bytes_per_second), fetched
        )
        looks = read_last_looks(session.cluster_uri)
        work, settings = _Work(topic, request, looks), session.access.get_connection_settings()
        for unknown in work.segments.not_found() if not work.sizes else ():
            # To say "nothing" of what was misspelt would be an answer.
            require_known_topic(topic, unknown)
        foretold = foretell(work.sizes, manifests=manager.layout.name == AivenLayout.name, price=settings.read_price())
        logger.info("%s", foretold.in_words)
        on_foretold(foretold)
        found = (
            work.archived(settings.storage_class)
            if settings.storage_class is not None and settings.storage_class in ARCHIVE_TIERS
            else work.looks(storage, on_step)
        )
        try:
            for look in found:
                work.tally.note(look)
                if look.outcome is not Outcome.GONE:
                    # What cannot be judged had its turn, too: else it would come first for ever, and nothing else be seen.
                    looks[look.metadata.remote_log_segment_id.id] = began_at_ms
        finally:
            keep_last_looks(session.cluster_uri, looks, work.all_copied())
        tally, topics = work.tally, work.tally.topics()
        report = ContentsReport(
            cluster_id=session.cluster_id,
            artifact=name,
            began_at_ms=began_at_ms,
            clock=str(session.clock),
            layout=manager.layout.name,
            asked_for=tuple(sorted(request.choice.topics)),
            not_found=tuple(work.segments.not_found()),
            share=request.choice.share,
            seed=request.choice.seed,
            may_have_gaps=request.may_have_gaps,
            copied=sum((one.copied for one in topics), ContentsAmount()),
            chosen=sum((one.chosen for one in topics), ContentsAmount()),
            outcomes=tally.outcomes,
            foretold=foretold,
            requests=fetched.requests,
            fetched_bytes=fetched.bytes,
            not_compared=dict(sorted(tally.not_compared.items())),
            log_in_doubt=_doubt(topic),
            topics=tuple(topics[:MAX_LISTED]),
            topics_left_out=max(0, len(topics) - MAX_LISTED),
            segments=tuple(tally.segments),
            segments_left_out=tally.segments_left_out,
            findings=tuple(tally.findings),
            findings_left_out=tally.findings_left_out,
        )
    write_document(uri, CONTENTS_DOCUMENT, report.to_json())
    return report


class _Work:
    """
    Looks at the chosen segments.

    :param topic: the log, as it was read.
    :param request: what is asked for.
    :param looked_at_ms: segment → when it was last looked at.
    """

    def __init__(self, topic: TopicReplay, request: ContentsRequest, looked_at_ms: dict[UUID, int]) -> None:
        from airflow_provider_rlmm.features.contents.chosen import CopiedSegments
        from airflow_provider_rlmm.features.contents.tally import ContentsTally

        self._topic = topic
        self._request = request
        self.segments: CopiedSegments = CopiedSegments(topic.segments, request.choice.topics)
        copied: dict[Topic, ContentsAmount] = {}
        chosen: dict[Topic, ContentsAmount] = {}
        self._chosen = set[UUID]()
        self.sizes: list[int] = []
        for key, rows in self.segments.by_topic().items():
            taken = request.choice.of_topic([segment for segment, _ in rows], looked_at_ms)
            copied[key] = ContentsAmount(len(rows), sum(size for _, size in rows))
            sizes = [size for segment, size in rows if segment in taken]
            chosen[key] = ContentsAmount(len(sizes), sum(sizes))
            self.sizes += sizes
            self._chosen |= taken
        self.tally: ContentsTally = ContentsTally(copied, chosen)

    def all_copied(self) -> Collection[UUID]:
        """Return all segments that the log calls copied now, of any topic."""
        return _copied_now(self._topic)

    def archived(self, storage_class: str) -> Iterator[Look]:
        """
        Yield what is said of each chosen segment where nothing is fetched.

        :param storage_class: an archive tier, in which the objects lie as the connection says.
        """
        from airflow_provider_rlmm.features.contents.looking import Look

        why = f"the connection says that it lies in {storage_class}, an archive tier: nothing was fetched"
        for one in self.segments.chosen(self._chosen):
            yield Look(one.metadata, Outcome.ARCHIVED, why)

    def looks(self, storage: PacedStorage, on_step: OnStep) -> Iterator[Look]:
        """
        Yield a look at each chosen segment; those that are not right come last, judged by the log as it is then.

        :param storage: has them.
        :param on_step: told how far it is.
        """
        from airflow_provider_rlmm.features.contents.looking import Looking

        looking = Looking(storage, may_have_gaps=self._request.may_have_gaps, at_once=self._request.at_once)
        in_doubt: list[Look] = []
        for done, look in enumerate(looking.of(self.segments.chosen(self._chosen)), 1):
            on_step("looking at segments", done, len(self._chosen))
            if look.outcome in (Outcome.DAMAGED, Outcome.MISSING):
                in_doubt.append(look)
            else:
                yield look
        if in_doubt:
            # A deletion is written down before the first object goes.
            self._topic.advance()
            copied = _copied_now(self._topic)
            for look in in_doubt:
                still = look.metadata.remote_log_segment_id.id in copied
                yield look if still else replace(look, outcome=Outcome.GONE, findings=(), found=0)


def _copied_now(topic: TopicReplay) -> frozenset[UUID]:
    import pyarrow.compute as pc

    table = topic.segments
    copied = table.filter(pc.equal(table.column("state"), int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)))
    return frozenset(UUID(bytes=segment) for segment in copied.column("segment_id").to_pylist())


def _doubt(topic: TopicReplay) -> str:
    """Say why the log may lack segments; nothing where it does not."""
    log = topic.log
    views = [topic.view(number, (), with_segments=False) for number in range(log.partition_count)]
    quarantined = sum(len(view.quarantined) for view in views)
    lost = any(view.lost_beginning is not None for view in views)
    hole = next((view.holes[0].why for view in views if view.holes), "")
    unknown = topic.without_size().total()
    said = (
        (lost, "the metadata topic has lost records"),
        (bool(hole), hole),
        (log.era.era is Era.COMPACTED, f"the metadata topic is {log.era}"),
        (quarantined > 0, f"{number_of(quarantined, 'record')} of the metadata topic cannot be applied"),
        (unknown > 0, f"{number_of(unknown, 'segment is', 'segments are')} named whose contents are not known"),
    )
    return "; ".join(words for holds, words in said if holds)
