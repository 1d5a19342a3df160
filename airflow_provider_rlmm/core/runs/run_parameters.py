# SPDX-License-Identifier: Apache-2.0
"""What a run may be told besides its limits, declared: what each is called and means, and its default."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base import values
from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.declarations import Declared, Duration, Text, Texts, Written
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.records.lost_records import WORDS_PATTERN, lost_records_named
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only

_NO_ID: Final = UUID(int=0)
_UUID_CHARS: Final = 36

LEAST_ANSWER_WITHIN_MS: Final = 1_000


def read_topic_id(name: str, value: object) -> UUID:
    """
    Return the topic id that a text spells, in Kafka's form or as a UUID with hyphens.

    :param name: what the error calls it.
    :param value: what a user wrote.
    :raises ConfigurationError: for anything else.
    """
    spelled = value.strip() if isinstance(value, str) else ""
    try:
        found = UUID(spelled) if len(spelled) == _UUID_CHARS else parse_kafka_uuid(spelled)
    except ValueError:
        found = _NO_ID
    if found == _NO_ID:
        raise refused(name, value, "a topic id in Kafka's form, such as g9LiIua4STiXAgIF9bPVMg")
    return found


def _hold_entries(name: str, value: object) -> tuple[str, ...]:
    return Hold.of(sorted(values.strings(name, value))).entries


def _only_entries(name: str, value: object) -> tuple[str, ...]:
    return Only.of(sorted(values.strings(name, value))).entries


def _lost_records(name: str, value: object) -> tuple[str, ...]:
    return lost_records_named(name, values.strings(name, value))


SOURCE_PLAN: Final[Declared[str | None]] = Declared(
    name="source_plan",
    kind=Text(),
    default=None,
    title="Plan to take work from",
    sentence="Plan of remote_log_retention to take work from: its name, or a URI below [rlmm] allowed_plan_roots",
)
HOLD: Final[Declared[tuple[str, ...]]] = Declared(
    name="hold",
    kind=Texts(_hold_entries),
    default=(),
    title="Topics on hold",
    sentence="Topics that this run must not touch: names, patterns with * and ?, topic ids; see the connection",
)
ONLY: Final[Declared[tuple[str, ...]]] = Declared(
    name="only",
    kind=Texts(_only_entries),
    default=ALL_TOPICS.entries,
    title="Only these topics",
    sentence="Topics that this run is for: names, patterns with * and ?, ids; * is all of them. A hold counts all the same",
)
CONFIRM_LOST_RECORDS: Final[Declared[tuple[str, ...]]] = Declared(
    name="confirm_lost_records",
    kind=Texts(_lost_records, pattern=WORDS_PATTERN),
    default=(),
    title="Lost records confirmed",
    sentence=(
        "Go on without records that earlier runs had read and the log has lost: 3@24, as the refusal says; or say why "
        "offsets hold no record: 3@17-18=a transaction"
    ),
)
CONFIRM_METADATA_TOPIC_ID: Final[Declared[UUID | None]] = Declared(
    name="confirm_metadata_topic_id",
    kind=Written(read_topic_id),
    default=None,
    title="New metadata topic confirmed",
    sentence="Go on though the metadata topic was deleted and made anew: its new id, as the refusal says",
)
ANSWER_WITHIN: Final = Declared(
    name="answer_within",
    kind=Duration(minimum=LEAST_ANSWER_WITHIN_MS),
    # A person who comes to work in the morning finds the request of the night, and six of the plan's 24 hours are left to
    # apply it.
    default=18 * HOUR_MS,
    title="Wait for an answer",
    sentence="Without an answer in this time, or by the plan's expiry, the plan is rejected",
)
