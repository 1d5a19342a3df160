# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.clock import duration_in_words
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.runs.attention import (
    DAY_MS,
    MAX_ACKNOWLEDGED_MS,
    MAX_CHARACTERS,
    Attention,
    Judgement,
    iso_time,
    judge,
    read_acknowledgements,
)

NOW = 1_800_000_000_000
CLUSTER = "cluster-1"
RECORD = Attention("MALFORMED", "a record", "its value is garbage", "look at it", metadata_partition=3, offset=17)
DENIED = Attention("ACCESS_DENIED", "topic id AAA", "DESCRIBE is denied", "grant it", topic="orders")
BROKEN_RUN = Attention("TASK_FAILED", "clean", "2 tasks failed", "read their logs", acknowledgeable=False)


def word(problem: Attention, **changed: Any) -> dict[str, Any]:
    """What a person would put into the variable, from what the report suggests."""
    suggested = Judgement(judge([problem], [], CLUSTER, NOW).failing).failing[0].suggestion(CLUSTER, NOW)
    assert suggested is not None
    return {k: v for k, v in (suggested | {"by": "me", "why": "known"} | changed).items() if v is not None}


def judged(problems: list[Attention], *words: dict[str, Any], now_ms: int = NOW) -> tuple[list[str], list[str]]:
    """Kinds that fail and kinds that are acknowledged."""
    read = read_acknowledgements(json.dumps(words), NOW, "the variable")
    assert read.problems == ()
    judgement = judge(problems, read.known, CLUSTER, now_ms)
    return [j.attention.kind for j in judgement.failing], [j.attention.kind for j in judgement.acknowledged]


def test_a_problem_fails_until_exactly_it_is_acknowledged() -> None:
    assert judged([RECORD, DENIED]) == (["MALFORMED", "ACCESS_DENIED"], [])
    assert judged([RECORD, DENIED], word(RECORD)) == (["ACCESS_DENIED"], ["MALFORMED"])
    assert judged([RECORD, DENIED], word(RECORD), word(DENIED)) == ([], ["MALFORMED", "ACCESS_DENIED"])


def test_a_records_acknowledgement_is_its_place_and_kind() -> None:
    by_hand = {
        "cluster_id": CLUSTER, "metadata_partition": 3, "offset": 17, "kind": "MALFORMED", "by": "me", "why": "known",
        "until": iso_time(NOW + DAY_MS),
    }  # fmt: skip
    assert judged([RECORD], by_hand) == ([], ["MALFORMED"])


@pytest.mark.parametrize(
    "second",
    [
        replace(RECORD, offset=18),
        replace(RECORD, metadata_partition=4),
        replace(RECORD, kind="KEYED"),
        replace(RECORD, offset=None),
        replace(RECORD, topic="orders"),
    ],
)
def test_a_records_acknowledgement_covers_no_second_problem(second: Attention) -> None:
    assert judged([RECORD, second], word(RECORD)) == ([second.kind], ["MALFORMED"])


@pytest.mark.parametrize(
    "second",
    [
        replace(DENIED, topic="orders-2"),
        replace(DENIED, what="topic id BBB"),
        replace(DENIED, kind="AMBIGUOUS"),
        replace(DENIED, metadata_partition=0),
        replace(DENIED, metadata_partition=0, offset=1),
    ],
)
def test_an_acknowledgement_of_a_topic_covers_no_second_problem(second: Attention) -> None:
    assert judged([DENIED, second], word(DENIED)) == ([second.kind], ["ACCESS_DENIED"])


def test_two_partitions_refused_for_one_record_are_acknowledged_singly() -> None:
    first = replace(RECORD, topic="orders", what="AAA:orders-0")
    second = replace(first, what="AAA:orders-1")
    assert judged([first, second], word(first)) == (["MALFORMED"], ["MALFORMED"])


def test_where_the_kind_does_not_say_what_is_wrong_the_words_do() -> None:
    for kind in (RefusalKind.STORAGE, RefusalKind.OTHER, RefusalKind.CLOCK):
        denied = Attention.of_refusal(Refusal("AAA:orders-0", "access denied", "grant it", kind, 3, topic="orders"))
        again = Attention.of_refusal(Refusal("AAA:orders-0", "objects elsewhere", "look", kind, 3, topic="orders"))
        assert judged([denied, again], word(denied)) == ([kind], [kind])


def test_a_refusal_that_names_nothing_or_one_run_cannot_be_acknowledged() -> None:
    nothing = Refusal("37 more", "a plan names the first ones only", "settle these first", RefusalKind.OTHER)
    lost = Refusal("metadata partition 3", "its task left no report", "look", RefusalKind.REPORT, 3)
    for refusal in (nothing, lost, replace(lost, kind=RefusalKind.BLAST_RADIUS)):
        assert not Attention.of_refusal(refusal).acknowledgeable
    assert Attention.of_refusal(replace(lost, kind=RefusalKind.LOST_RECORDS)).acknowledgeable
    # A cleaner's refusal is met in a metadata partition, though it does not say so itself.
    met = Attention.of_refusal(replace(nothing, topic="orders"), 3)
    assert (met.metadata_partition, met.acknowledgeable) == (3, True)


def test_another_clusters_acknowledgement_covers_nothing_here() -> None:
    assert judged([RECORD], word(RECORD, cluster_id="cluster-2")) == (["MALFORMED"], [])


def test_the_same_problem_met_by_two_tasks_is_one() -> None:
    assert judged([RECORD, replace(RECORD, what="in other words", why="too")]) == (["MALFORMED"], [])
    assert judged([BROKEN_RUN, replace(BROKEN_RUN, what="mark"), BROKEN_RUN]) == (["TASK_FAILED", "TASK_FAILED"], [])


def test_an_expired_acknowledgement_fails_again_and_says_so() -> None:
    expiring = word(RECORD, until=iso_time(NOW + DAY_MS))
    assert judged([RECORD], expiring, now_ms=NOW + DAY_MS - 1) == ([], ["MALFORMED"])
    assert judged([RECORD], expiring, now_ms=NOW + DAY_MS) == (["MALFORMED"], [])
    read = read_acknowledgements(json.dumps([expiring]), NOW, "the variable")
    judgement = judge([RECORD], read.known, CLUSTER, NOW + DAY_MS)
    assert f"its acknowledgement expired at {iso_time(NOW + DAY_MS)}" in judgement.headline()
    (entry,) = (plain_of(j.entry(CLUSTER, NOW)) for j in judgement.failing)
    assert entry["acknowledgement"] == {
        "by": "me", "why": "known", "until": iso_time(NOW + DAY_MS), "expired": True
    }  # fmt: skip
    # Renewed: the one that reaches furthest counts, in whatever order they stand.
    renewed = word(RECORD, until=iso_time(NOW + 3 * DAY_MS))
    for words in ([expiring, renewed], [renewed, expiring]):
        assert judged([RECORD], *words, now_ms=NOW + 2 * DAY_MS) == ([], ["MALFORMED"])


def test_what_ends_with_a_run_cannot_be_acknowledged() -> None:
    forged = {
        "cluster_id": CLUSTER, "kind": "TASK_FAILED", "what": "clean", "by": "me", "why": "-",
        "until": iso_time(NOW + DAY_MS),
    }  # fmt: skip
    assert judged([BROKEN_RUN], forged) == (["TASK_FAILED"], [])
    (entry,) = (plain_of(j.entry(CLUSTER, NOW)) for j in judge([BROKEN_RUN], [], CLUSTER, NOW).failing)
    assert entry["acknowledge_with"] is None


def test_what_the_report_suggests_is_what_is_accepted_once_it_is_signed() -> None:
    long_named = Attention("X", "w" * 70_000, "", "", topic="t" * 70_000)
    for problem in (RECORD, DENIED, replace(DENIED, metadata_partition=3, offset=1), long_named):
        assert judged([problem], word(problem)) == ([], [problem.kind])
        (entry,) = (plain_of(j.entry(CLUSTER, NOW)) for j in judge([problem], [], CLUSTER, NOW).failing)
        assert entry["acknowledge_with"] | {"by": "me", "why": "known"} == word(problem)
        unsigned = read_acknowledgements(json.dumps([entry["acknowledge_with"]]), NOW, "the variable")
        assert [p.why for p in unsigned.problems] == [f"by must be a text of 1 to {MAX_CHARACTERS} characters, got ''"]
    assert judged([long_named, replace(long_named, what="w" * 69_999 + "v")], word(long_named)) == (["X"], ["X"])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"untill": "2026"}, "unknown fields ['untill']"),
        ({"by": None}, "fields ['by'] are missing"),
        ({"until": None}, "fields ['until'] are missing"),
        ({"cluster_id": None}, "fields ['cluster_id'] are missing"),
        ({"kind": None}, "fields ['kind'] are missing"),
        ({"why": "  "}, "why must be a text"),
        ({"kind": 3}, "kind must be a text"),
        ({"by": "x" * 2001}, "by must be a text"),
        ({"offset": "17"}, "offset must be an integer"),
        ({"offset": True}, "offset must be an integer"),
        ({"offset": 17.0}, "offset must be an integer"),
        ({"offset": -1}, "offset must be an integer"),
        ({"offset": None}, "must name a record by metadata_partition and offset, or a subject by what"),
        ({"until": "tomorrow"}, "until must be a time such as "),
        ({"until": 1}, "until must be a text"),
        ({"until": "2026-11-14T00:00:00"}, "until must name its time zone"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "no acknowledgement is that old"),
        ({"until": "9999-12-31T23:59:59Z"}, "(90 days)"),
        ({"until": iso_time(NOW + MAX_ACKNOWLEDGED_MS + 1000)}, "(90 days)"),
    ],
)
def test_a_malformed_acknowledgement_fails_by_itself_and_the_others_count(changed: dict[str, Any], why: str) -> None:
    text = json.dumps([word(DENIED), word(RECORD, **changed)])
    read = read_acknowledgements(text, NOW, "the variable")
    (problem,) = read.problems
    assert problem.what == "entry 2 of the variable"
    assert why in problem.why
    judgement = judge([*read.problems, RECORD, DENIED], read.known, CLUSTER, NOW)
    assert [j.attention.kind for j in judgement.failing] == ["ACKNOWLEDGEMENT", "MALFORMED"]
    assert [j.attention.kind for j in judgement.acknowledged] == ["ACCESS_DENIED"]


def test_the_furthest_expiry_that_is_allowed() -> None:
    furthest = word(RECORD, until=iso_time(NOW + MAX_ACKNOWLEDGED_MS))
    assert judged([RECORD], furthest) == ([], ["MALFORMED"])


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "null", "3", '["x"]', "[" * 100_000, f"[{'1' * 5000}]", '[{"kind": "A", "kind": "B"}]']
)
def test_a_variable_that_is_no_list_of_acknowledgements_fails_and_acknowledges_nothing(text: str) -> None:
    read = read_acknowledgements(text, NOW, "the variable")
    assert read.known == ()
    assert [p.kind for p in read.problems] == ["ACKNOWLEDGEMENT"]
    assert not read.problems[0].acknowledgeable


def test_a_list_without_bound_is_refused() -> None:
    read = read_acknowledgements(json.dumps([word(RECORD)] * 10_001), NOW, "the variable")
    assert (read.known, "10,001 entries" in read.problems[0].why) == ((), True)


def test_without_the_variable_nothing_is_acknowledged_and_nothing_is_wrong() -> None:
    read = read_acknowledgements(None, NOW, "the variable")
    assert (read.known, read.problems) == ((), ())


def test_the_headline_counts_and_names_the_first() -> None:
    assert judge([], [], CLUSTER, NOW).headline() == ""
    assert judge([RECORD], [], CLUSTER, NOW).headline() == (
        "1 thing needs a person. The first: MALFORMED a record (metadata partition 3, offset 17): its value is garbage. "
        "What to do: look at it."
    )
    endless = judge([replace(DENIED, why="\n\u202e" * 9_000)], [], CLUSTER, NOW).headline()
    assert endless.isprintable()
    assert len(endless) < 1_000
    assert judge([DENIED, RECORD], [], CLUSTER, NOW).headline().startswith(
        "2 things need a person. The first: ACCESS_DENIED topic id AAA (topic orders): DESCRIBE is denied."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 s"), (1, "1 s"), (59_000, "59 s"), (60_000, "1 min"), (60_001, "2 min"), (3_600_000, "1 h 0 min"),
        (85_620_000, "23 h 47 min"), (86_399_999, "24 h 0 min"), (200 * 3_600_000, "200 h 0 min"),
    ],
)  # fmt: skip
def test_durations_in_words_are_rounded_up(duration_ms: int, words: str) -> None:
    assert duration_in_words(duration_ms) == words


@pytest.mark.parametrize(
    ("topic", "text"),
    [("orders", "(topic orders)"), ("a\nERROR", r"(topic 'a\nERROR')"), ("\u202ea", r"(topic '\u202ea')")],
)
def test_a_topic_is_quoted_where_kafka_would_not_allow_its_name(topic: str, text: str) -> None:
    assert str(Attention("KIND", "what", "why", "todo", topic)) == f"KIND what {text}: why"
