# SPDX-License-Identifier: Apache-2.0
"""The document of a scrub of contents: what was looked at, which share of all that is, and what is wrong. It is sealed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.documents import LongText, Share, Text, reader_of, sealed_text, value_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.quoting import human_bytes, list_in_quotes
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind
from airflow_provider_rlmm.features.contents.foretold import Foretold
from airflow_provider_rlmm.features.contents.rules import Outcome

CONTENTS_FORMAT: Final = 1
"""Version of the document; one of another version is not read."""

CONTENTS_DOCUMENT: Final = "contents.json"

_TYPED_TOPICS: Final = 10
"""Topics that one command names."""

MAX_LISTED: Final = 1_000
"""Segments, findings and topics that the document lists; all are counted."""


@dataclass(frozen=True, slots=True)
class ContentsAmount:
    """How many segments there are of something."""

    segments: int = 0
    bytes: int = 0  # sizes of their logs as they lay on the brokers' disks, summed

    def __add__(self, other: ContentsAmount) -> ContentsAmount:
        return ContentsAmount(self.segments + other.segments, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class ContentsTopic:
    """What was looked at of one topic."""

    topic: Text
    topic_id: Text  # Kafka's base64 form
    copied: ContentsAmount  # all that the log calls copied
    chosen: ContentsAmount  # of them
    looked_at: ContentsAmount  # of the chosen ones: whole, and judged
    needs_person: int  # segments of them that need a person


@dataclass(frozen=True, slots=True)
class ContentsSegment:
    """A segment that is not right."""

    topic: Text
    topic_id: Text
    partition: int
    segment_id: Text
    start_offset: int  # inclusive
    end_offset: int  # inclusive
    outcome: Outcome
    why: LongText  # the reason, where its contents could not be judged; else empty
    findings: int  # how many things are wrong with it


@dataclass(frozen=True, slots=True)
class ContentsFinding:
    """One thing that is wrong."""

    segment_id: Text
    kind: DamageKind
    part: Text  # ``log``, or which index
    position: int | None  # first byte in doubt, within that part as it lay on the broker's disk
    offset: int | None  # of the first record in doubt
    expected: LongText  # in a few words; may be empty
    seen: LongText
    why: LongText


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsReport:
    """
    The document.

    :param cluster_id: the cluster.
    :param artifact: name of the run.
    :param began_at_ms: ms since the epoch.
    :param clock: how that time was proven.
    :param layout: name of the layout.
    :param asked_for: topics that were asked for, names and ids; none for all.
    :param not_found: those of them that have no copied segment.
    :param share: of each topic's segments that was asked for.
    :param seed: decided between segments that were last looked at equally long ago.
    :param may_have_gaps: whether missing offsets count as none.
    :param copied: all segments of these topics that the log calls copied.
    :param chosen: of them.
    :param outcomes: what became of those, each once.
    :param foretold: what was said before of requests, bytes and cost.
    :param requests: reads of logs, indexes and manifests.
    :param fetched_bytes: bytes that they brought, unpacked.
    :param not_compared: index → segments of which it is not known where it lies.
    :param log_in_doubt: why the log may lack segments, empty where it does not.
    :param topics: the first of them by name.
    :param topics_left_out: how many more there are.
    :param segments: the first that are not right.
    :param segments_left_out: how many more there are.
    :param findings: the first things that are wrong.
    :param findings_left_out: how many more there are.
    """

    cluster_id: Text
    artifact: Text
    began_at_ms: int
    clock: Text
    layout: Text
    asked_for: tuple[Text, ...]
    not_found: tuple[Text, ...]
    share: Share
    seed: Text
    may_have_gaps: bool
    copied: ContentsAmount
    chosen: ContentsAmount
    outcomes: Mapping[Annotated[str, value_of(Outcome)], ContentsAmount]
    foretold: Foretold
    requests: int
    fetched_bytes: int
    not_compared: Mapping[Text, int]
    log_in_doubt: LongText
    topics: tuple[ContentsTopic, ...]
    topics_left_out: int
    segments: tuple[ContentsSegment, ...]
    segments_left_out: int
    findings: tuple[ContentsFinding, ...]
    findings_left_out: int

    def to_json(self) -> str:
        """
        Return the document.

        :raises DocumentError: if it does not read back as it was written.
        """
        return sealed_text(self, CONTENTS_FORMAT, self.from_json, DocumentError, f"the report of {self.artifact}")

    @classmethod
    def from_json(cls, text: str) -> ContentsReport:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, CONTENTS_FORMAT), "contents")
        except ValueError as e:
            raise DocumentError(f"the report of a scrub of contents cannot be read ({e}); verify again") from e

    def segments_of(self, outcome: Outcome) -> int:
        """Return how many segments have an outcome; a report from before it was there has none."""
        return self.outcomes.get(outcome, ContentsAmount()).segments

    @property
    def looked_at(self) -> ContentsAmount:
        """What was looked at whole, and judged."""
        found = (amount for name, amount in self.outcomes.items() if Outcome(name).was_looked_at)
        return sum(found, ContentsAmount())

    @property
    def share_in_words(self) -> str:
        """Which share of all copied segments was looked at, as a sentence."""
        looked, copied = self.looked_at, self.copied
        share = f" ({100 * looked.bytes / copied.bytes:.1f} % of the bytes)" if copied.bytes else ""
        return (
            f"{looked.segments:,} of {number_of(copied.segments, 'copied segment')} "
            f"{agreeing(looked.segments, 'was', 'were')} looked at, {human_bytes(looked.bytes)} of "
            f"{human_bytes(copied.bytes)}{share}"
        )

    def problems(self) -> Iterator[str]:
        """Yield what needs a person, and what to do."""
        for outcome, advice in ADVICE.items():
            if count := self.segments_of(outcome):
                shown = "; ".join(_named(one) for one in self.segments if one.outcome is outcome)[:1_000]
                yield f"{number_of(count, 'segment is', 'segments are')} {outcome} ({shown}). {advice}"
        yield from self.problems_of_the_run()

    def problems_of_the_run(self) -> Iterator[str]:
        """Yield what needs a person and is no segment: why not all was seen."""
        if self.not_found:
            yield (
                f"the log calls no segment of {list_in_quotes(self.not_found)} copied: look whether name or id is right "
                "('rlmm topics' prints them)"
            )
        if self.log_in_doubt:
            yield f"{self.log_in_doubt}: what the log does not say was not looked at. Run 'rlmm doctor'"
        if self.chosen.segments and not self.looked_at.segments:
            yield "nothing could be looked at: the outcomes say why"

    @property
    def what_to_type(self) -> str:
        """The command that comes first where something needs a person, and what it does."""
        topics = sorted({one.topic_id for one in self.segments if one.outcome.needs_person})
        if topics:
            named = "".join(f" --topic={topic}" for topic in topics[:_TYPED_TOPICS])
            more = ", and again for the others that the report names" if topics[_TYPED_TOPICS:] else ""
            return f"type 'rlmm verify{named}', which looks at all segments of the topics in question{more}"
        if self.log_in_doubt:
            return "type 'rlmm doctor', which says what is wrong with the metadata topic"
        if self.not_found:
            return "type 'rlmm topics', which prints names and ids"
        return "type 'rlmm check', which says what the storage refuses"


def _named(one: ContentsSegment) -> str:
    where = f"{one.topic}-{one.partition} from offset {one.start_offset}, segment {one.segment_id}"
    return f"{where}: {one.why[:200]}" if one.why else where


_READ = reader_of(ContentsReport)

ADVICE: Final[Mapping[Outcome, str]] = {
    Outcome.DAMAGED: (
        "Brokers serve it as it is. Keep its objects as they are, look whether the bucket has earlier versions of them, and "
        "whether a replica's disk still has the records; 'rlmm read TOPIC PARTITION --from-offset …' shows what can be read"
    ),
    Outcome.MISSING: (
        "The log calls it copied and an object is not there: look whether storage, layout and prefix are the brokers', then "
        "at the bucket's deletions and lifecycle rules"
    ),
    Outcome.UNREAD: "Mend what the storage says, then verify again",
}
"""Outcomes that need a person → what to do."""
