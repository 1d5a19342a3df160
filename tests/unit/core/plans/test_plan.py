# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import BlastRadiusError, PlanError
from airflow_provider_rlmm.core.base.strict_json import checksum
from airflow_provider_rlmm.core.plans import plan as plan_module
from airflow_provider_rlmm.core.plans.certainty import LeadersTold
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import (
    PLAN_COLUMNS,
    PlanFile,
    PlanSummary,
    Reason,
    first_refusals,
    plan_file_name,
)
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.read_tail import ReadTail
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra

SUMMARY = PlanSummary(
    plan_id="p-1",
    cluster_id="cluster",
    created_at_ms=1,
    expires_at_ms=2,
    read_until={0: 10, 4: 0},
    known=Count(5, 500),
    by_reason={Reason.ORPHANED: Count(2, 200), Reason.DANGLING: Count(1, 7)},
    by_metadata_partition={0: Count(3, 207), 4: Count(0, 0)},
    quarantined={4: 1},
    unresolved=3,
    refusals=(
        Refusal("gone-0", "marked 5 ms ago", "nothing", RefusalKind.WAITING, 4, 17, "gone"),
        Refusal("Grüße\x00\u202e", "sees nothing", "grant DESCRIBE", RefusalKind.ACCESS_DENIED),
    ),
    files={0: PlanFile.of(plan_file_name(0), 3, b"abc"), 4: PlanFile.of(plan_file_name(4), 0, b"")},
    blast_radius=BlastRadius(10, 1_000, 0.75),
    within_blast_radius=True,
    root={"place": {"root_id": "x", "newest": [1, None, True, "k"]}},
    clock="LogAppendTime of the metadata topic",
    hold=("legal-*",),
    tails={0: ReadTail(2, 10, "ab")},
)


def document(**changes: Any) -> str:
    """The summary's document with other fields, under a checksum that fits them: somebody meant it."""
    changed = {**json.loads(SUMMARY.to_json()), **changes}
    changed = {k: v for k, v in changed.items() if v is not Ellipsis}
    del changed["sha256"]
    # Not with `checksum`: it refuses what no JSON can say.
    changed["sha256"] = checksum(json.loads(json.dumps(changed), parse_constant=lambda name: name))
    return json.dumps(changed)


def test_json_round_trip() -> None:
    assert PlanSummary.from_json(SUMMARY.to_json()) == SUMMARY
    assert PlanSummary.from_json(document()) == SUMMARY


def test_the_summary_knows_the_checksum_that_its_document_says() -> None:
    assert SUMMARY.sha256 == json.loads(SUMMARY.to_json())["sha256"]
    assert (
        replace(SUMMARY, files={**SUMMARY.files, 4: PlanFile.of(plan_file_name(4), 0, b"x")}).sha256 != SUMMARY.sha256
    )


def test_planned_is_the_sum_of_all_reasons() -> None:
    assert SUMMARY.planned == Count(3, 207)


def test_column_names_are_unique_and_end_with_the_verdict() -> None:
    names = [name for name, _ in PLAN_COLUMNS]
    assert len(set(names)) == len(names)
    assert names[-2:] == ["reason", "exact"]


COUNT = {"segments": 2, "bytes": 200}


@pytest.mark.parametrize(
    "changes",
    [
        {"known": 5},
        {"known": {"segments": 1}},
        {"known": {**COUNT, "bytes": 200.0}},
        {"known": {**COUNT, "segments": True}},
        {"known": {**COUNT, "bytes": -1}},
        {"known": {**COUNT, "bytes": 2**63}},
        {"known": {**COUNT, "bytes": "200"}},
        {"known": {**COUNT, "more": 1}},
        {"read_until": {"zero": 1}},
        {"read_until": {"00": 1}},
        {"read_until": {"-1": 1}},
        {"read_until": {"²": 1}},
        {"read_until": {str(2**31): 1}},
        {"by_reason": []},
        {"by_reason": {"ANY": COUNT}},
        {"quarantined": None},
        {"unresolved": float("nan")},
        {"created_at_ms": float("inf")},
        {"expires_at_ms": 1e3},
        {"expires_at_ms": 10**400},
        {"plan_id": 7},
        {"plan_id": "p" * 10_001},
        {"refusals": {}},
        {"refusals": [{"what": "w", "why": "w", "what_to_do": "w"}]},
        {"blast_radius": {"max_segments": 10, "max_bytes": 1_000, "max_share": 1.1}},
        {"blast_radius": {"max_segments": 10, "max_bytes": 1_000, "max_share": float("nan")}},
        {"blast_radius": {"max_segments": 10, "max_bytes": 1_000, "max_share": True}},
        {"blast_radius": {"max_segments": 10, "max_bytes": 1_000, "max_share": 10**400}},
        {"blast_radius": {"max_segments": 10, "max_bytes": 1_000}},
        {"within_blast_radius": 1},
        {"root": []},
        {"root": {"place": 0.5}},
        {"hold": "legal-*"},
        {"clock": None},
        {"clock": ...},
        {"files": ...},
        {"more": 1},
        {"format_version": 2},
        {"format_version": True},
        {"format_version": ...},
    ],
    ids=repr,
)
def test_bad_documents_are_refused_though_their_checksum_fits(changes: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="make a new plan"):
        PlanSummary.from_json(document(**changes))


def test_a_bad_value_is_named_and_cut() -> None:
    with pytest.raises(PlanError, match=r"summary\.known is 'x{76}\.\.\., not an object"):
        PlanSummary.from_json(document(known="x" * 10**6))


@pytest.mark.parametrize(
    "changes",
    [
        {"by_reason": {"ORPHANED": COUNT}},
        {"known": COUNT},
        {"files": {}},
        {"files": {0: SUMMARY.files[0], 5: SUMMARY.files[4]}},
        {"files": {**SUMMARY.files, 0: replace(SUMMARY.files[0], name="../other/metadata-partition-0.parquet")}},
        {"files": {**SUMMARY.files, 0: replace(SUMMARY.files[0], rows=2)}},
        {"files": {**SUMMARY.files, 0: replace(SUMMARY.files[0], bytes=2**31 + 1)}},
        {"within_blast_radius": False},
        {"blast_radius": BlastRadius(2, 1_000, 0.75)},
        {"blast_radius": BlastRadius(10, 206, 0.75)},
        {"blast_radius": BlastRadius(10, 1_000, 0.5)},
        {"blast_radius": None},
    ],
    ids=repr,
)
def test_numbers_that_contradict_each_other_are_neither_written_nor_read(changes: dict[str, Any]) -> None:
    values = {k: Count(**v) if v is COUNT else v for k, v in changes.items()}
    values = {k: {"ORPHANED": Count(**COUNT)} if k == "by_reason" else v for k, v in values.items()}
    with pytest.raises(PlanError, match="make a new plan"):
        replace(SUMMARY, **values).to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "null", "[" * 100_000, '{"a": 1, "a": 1}'])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="make a new plan"):
        PlanSummary.from_json(text)


def test_a_changed_document_is_refused() -> None:
    with pytest.raises(PlanError, match="sha256 differs"):
        PlanSummary.from_json(SUMMARY.to_json().replace('"expires_at_ms": 2', '"expires_at_ms": 3'))
    with pytest.raises(PlanError, match="a name is given twice"):
        PlanSummary.from_json(SUMMARY.to_json().replace('"unresolved": 3', '"unresolved": 9, "unresolved": 3'))


def test_a_document_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(plan_module.PLAN_FORM, max_bytes=len(SUMMARY.to_json()) - 1)
    monkeypatch.setattr(plan_module, "PLAN_FORM", small)
    for read in (lambda: PlanSummary.from_json(f"{SUMMARY.to_json()}"), SUMMARY.to_json):
        with pytest.raises(PlanError, match="a plan summary has at most"):
            read()


# --- files and limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"ab", b"abd", b"abcd"])
def test_other_bytes_are_not_the_file(data: bytes) -> None:
    file = PlanFile.of(plan_file_name(0), 3, b"abc")
    file.check(b"abc")
    with pytest.raises(PlanError, match=r"metadata-partition-0\.parquet"):
        file.check(data)


def test_a_plan_says_whether_it_is_within_its_limit() -> None:
    SUMMARY.check_blast_radius()
    refused = SUMMARY.judged_by(BlastRadius(max_segments=2, max_share=1))
    assert (refused.within_blast_radius, PlanSummary.from_json(refused.to_json())) == (False, refused)
    with pytest.raises(BlastRadiusError, match="max_segments is 3, the limit 2"):
        refused.check_blast_radius()
    with pytest.raises(PlanError, match="not judged by a blast radius"):
        replace(SUMMARY, blast_radius=None, within_blast_radius=False).check_blast_radius()


# --- refusals --------------------------------------------------------------------------------------------------------


def test_what_waits_is_held_or_is_left_to_the_next_run_needs_nobody() -> None:
    nobody = {kind for kind in RefusalKind if not kind.needs_person}
    assert nobody == {RefusalKind.WAITING, RefusalKind.NEXT_RUN, RefusalKind.HELD}


def refusals(kinds: list[RefusalKind]) -> list[Refusal]:
    return [Refusal(str(n), "y" * 2_000, "z", kind) for n, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("kinds", "named", "last"),
    [
        ([RefusalKind.WAITING, RefusalKind.STORAGE], ["1", "0"], RefusalKind.WAITING),
        ([RefusalKind.WAITING] * 3, ["0", "1", "1 more"], RefusalKind.WAITING),
        ([RefusalKind.WAITING, *[RefusalKind.STORAGE] * 4], ["1", "2", "2 more", "1 more"], RefusalKind.WAITING),
    ],
)
def test_a_summary_has_room_for_the_first_refusals(
    monkeypatch: pytest.MonkeyPatch, kinds: list[RefusalKind], named: list[str], last: RefusalKind
) -> None:
    monkeypatch.setattr(plan_module, "MAX_REFUSALS", 2)
    kept = first_refusals(refusals(kinds))
    assert ([r.what for r in kept], kept[-1].kind) == (named, last)
    # Nothing is lost, and nothing that waits comes to need a person.
    assert sum(r.count for r in kept) == len(kinds)
    assert sum(r.count for r in kept if r.kind.needs_person) == sum(kind.needs_person for kind in kinds)
    assert len(kept[0].why) == plan_module.MAX_REFUSAL_TEXT


def test_a_plan_that_nothing_ties_to_the_log_is_refused() -> None:
    tail = ReadTail(3, 9, "00")
    assert replace(SUMMARY, tails={4: tail}).tail_of(4) == tail
    with pytest.raises(PlanError, match="does not say which records of metadata partition 4 were read last"):
        SUMMARY.tail_of(4)


def test_what_leaders_delete_is_counted_apart_and_what_is_estimated_of_it() -> None:
    counts = {reason.value: Count(n, 10 * n) for n, reason in enumerate(Reason, 1)}
    found = replace(SUMMARY, by_reason=counts)
    assert [reason.name for reason in Reason if reason.is_of_leaders] == [
        "DELETION_RETRIED", "LOG_START_OFFSET", "RETENTION_MS", "RETENTION_BYTES", "UNREFERENCED_EPOCH"
    ]  # fmt: skip
    # Of what only dangles neither this package nor a leader deletes anything before its topic goes.
    assert (found.to_delete, found.expected_of_leaders) == (Count(1, 10), Count(3 + 4 + 5 + 6 + 7, 250))
    assert found.planned == Count(28, 280)
    assert found.estimated_of_leaders == Count(25, 250)
    certain = replace(found, leaders=LeadersTold(all=3, goes=Count(20, 200)))
    assert certain.estimated_of_leaders == Count(5, 50)
    with pytest.raises(ValueError, match="leaders delete more for certain than is planned"):
        replace(
            found,
            known=Count(28, 280),
            by_metadata_partition={0: Count(28, 280)},
            leaders=LeadersTold(goes=Count(26, 200)),
        ).check_numbers()


def test_a_plan_tells_its_era_and_one_that_does_not_keeps_its_checksum() -> None:
    plan = replace(SUMMARY, era=ToldEra(EraName.KEYED, "a key"))
    assert PlanSummary.from_json(plan.to_json()) == plan
    assert json.loads(plan.to_json())["era"] == {"name": "keyed", "why": "a key"}
    before = json.loads(SUMMARY.to_json())
    assert "era" not in before
    assert PlanSummary.from_json(SUMMARY.to_json()).sha256 == before["sha256"]
    with pytest.raises(PlanError, match=r"era\.name"):
        PlanSummary.from_json(document(era={"name": "later", "why": ""}))
