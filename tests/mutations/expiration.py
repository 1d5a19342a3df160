# SPDX-License-Identifier: Apache-2.0
"""Mutations of what a leader is said to delete next: each would call a segment expired that stays, or the other way round."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

EXPIRATION_RULE = "features/retention/expiration.py"

LINEAGE = "features/retention/leader_lineage.py"
OVERDUE = "features/retention/overdue.py"
LEADER_PASS = "features/retention/leader_pass.py"

_COMMAND = "cli/test_retention.py"
_TESTS = "features/retention/test_expiration.py"
_RECORDED = f"{_TESTS}::test_what_kafkas_own_task_deleted"
_ORDER = f"{_TESTS}::test_where_the_order_of_hashes_decides_nothing_is_certain"
_UNDECIDED = f"{_TESTS}::test_what_a_leader_epoch_index_does_not_tell_is_undecided"


def _mutation(name: str, old: str, new: str, test: str = _RECORDED) -> Mutation:
    return Mutation("expiration", name, EXPIRATION_RULE, old, new, test)


EXPIRATION = [
    # -- which segments the walk meets
    _mutation(
        "a lineage is not cut at the log start offset",
        "leader_epochs=leader.leader_epochs.truncate_from_start(leader.log_start_offset)",
        "leader_epochs=leader.leader_epochs",
    ),
    _mutation(
        "a segment that is being copied does not end the walk",
        "        if segment_id in self._leader.being_copied:\n            return False\n",
        "",
    ),
    _mutation(
        "a segment of a foreign lineage ends the walk",
        "return segment_id not in self._leader.undecided",
        "return False",
    ),
    _mutation(
        "the walk goes on behind a segment that stays",
        "segment.segment_size_in_bytes > self._bytes_over:\n                return False",
        "segment.segment_size_in_bytes > self._bytes_over:\n                return True",
    ),
    switched_off(
        EXPIRATION_RULE,
        "expiration",
        "a deletion that was started is judged by the limits",
        "    if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:",
        _RECORDED,
    ),
    # -- log start offset and epochs
    _mutation(
        "a segment that holds the log start offset lies below it",
        "segment.end_offset < leader.log_start_offset",
        "segment.end_offset <= leader.log_start_offset",
    ),
    _mutation("the epoch of the log start offset is none below it", "all(e <= earliest for", "all(e < earliest for"),
    _mutation(
        "epochs do not matter below the log start offset",
        " and all(e <= earliest for e, _ in segment.segment_leader_epochs)",
        "",
    ),
    _mutation(
        "a segment goes with one epoch below the lineage", "if all(epoch < earliest for", "if any(epoch < earliest for"
    ),
    _mutation(
        "the earliest epoch is unreferenced",
        "            if all(epoch < earliest for",
        "            if all(epoch <= earliest for",
    ),
    # -- time
    _mutation(
        "a segment goes at the millisecond of its limit",
        "segment.max_timestamp_ms < until_ms",
        "segment.max_timestamp_ms <= until_ms",
    ),
    _mutation(
        "retention.ms=0 is no limit", "leader.retention_ms >= 0 and until_ms", "leader.retention_ms > 0 and until_ms"
    ),
    _mutation(
        "time takes segments of a foreign lineage",
        "if too_old and _is_valid(segment, leader) else None",
        "if too_old else None",
    ),
    # -- bytes
    _mutation(
        "bytes of a foreign lineage push a living segment over the limit",
        "RemoteLogSegmentState.COPY_SEGMENT_FINISHED and _is_valid(segment, leader)",
        "RemoteLogSegmentState.COPY_SEGMENT_FINISHED",
    ),
    _mutation(
        "unfinished copies and deletions count as bytes",
        "if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and _is_valid",
        "if _is_valid",
    ),
    _mutation(
        "a segment counts once for each of its epochs",
        "        segment.remote_log_segment_id: segment.segment_size_in_bytes",
        "        object(): segment.segment_size_in_bytes",
    ),
    _mutation("local bytes do not count", "leader.only_local_bytes + sum(", "sum("),
    _mutation(
        "retention.bytes=0 is no limit", "    if leader.retention_bytes < 0:", "    if leader.retention_bytes <= 0:"
    ),
    _mutation(
        "a segment as large as the excess stays",
        "segment.segment_size_in_bytes > self._bytes_over",
        "segment.segment_size_in_bytes >= self._bytes_over",
    ),
    _mutation(
        "a segment larger than the excess goes",
        "self._bytes_over == 0 or segment.segment_size_in_bytes > self._bytes_over",
        "self._bytes_over == 0",
    ),
    _mutation("a segment without bytes goes by size", "self._bytes_over == 0 or ", ""),
    _mutation(
        "what time takes is taken again by size",
        "if reason in (Reason.RETENTION_MS, Reason.RETENTION_BYTES):",
        "if reason is Reason.RETENTION_BYTES:",
    ),
    _mutation(
        "what lies below the log start offset is no excess any more",
        "if reason in (Reason.RETENTION_MS, Reason.RETENTION_BYTES):",
        "if reason is not Reason.DELETION_RETRIED:",
    ),
    _mutation(
        "a deletion that is retried is no excess any more",
        "if reason in (Reason.RETENTION_MS, Reason.RETENTION_BYTES):",
        "if reason is not Reason.LOG_START_OFFSET:",
    ),
    # -- what nobody can tell
    _mutation(
        "an order that nobody can tell is certain",
        "in unreferenced for segment in segments) > 1",
        "in unreferenced for segment in segments) > 9",
        _ORDER,
    ),
    _mutation(
        "the walk goes on behind an undecided segment",
        "return segment_id not in self._leader.undecided",
        "return True",
        _UNDECIDED,
    ),
    _mutation(
        "an undecided segment counts as valid",
        "    if segment.remote_log_segment_id in leader.undecided:\n        return False\n",
        "",
        _UNDECIDED,
    ),
    _mutation(
        "a copy of the last epoch that reaches further is decided",
        "other.segment_leader_epochs[-1][0] >= last_epoch",
        "other.segment_leader_epochs[-1][0] > last_epoch",
        _UNDECIDED,
    ),
    _mutation(
        "a pass with undecided segments is exact", "walk.exact and not leader.undecided", "walk.exact", _UNDECIDED
    ),
    # -- what is left
    _mutation(
        "a segment is due before those that the walk meets first",
        "max(before_ms, due_ms)",
        "due_ms",
        f"{_TESTS}::test_a_segment_is_due_when_all_before_it_are",
    ),
    _mutation(
        "a segment that no epoch lists is only foreign",
        "return Standing.LEAKED",
        "return Standing.FOREIGN",
        f"{_TESTS}::test_a_segment_that_lost_its_place_is_leaked",
    ),
    # -- what is asked of the world
    Mutation(
        "expiration",
        "a record of whatever leader epoch confirms a lineage",
        LINEAGE,
        "        if record.leader_epoch == epoch:\n",
        "        if True:\n",
        f"{_COMMAND}::test_what_nobody_can_tell_is_said_and_no_segment_with_it",
    ),
    Mutation(
        "expiration",
        "a lineage that its leader does not confirm counts",
        LINEAGE,
        "        if isinstance(found, LeaderEpochCheckpoint) and (why := _why_not_confirmed(metadata, leader)) is None:\n",
        "        if isinstance(found, LeaderEpochCheckpoint):\n",
        f"{_COMMAND}::test_what_nobody_can_tell_is_said_and_no_segment_with_it",
    ),
    Mutation(
        "expiration",
        "what reaches further than the segment that keeps the lineage is decided",
        LEADER_PASS,
        "    view = known_up_to(view, lineage.source)\n",
        "",
        f"{_COMMAND}::test_where_the_newest_segment_is_not_confirmed_an_older_one_tells_of_what_lies_before",
    ),
    Mutation(
        "expiration",
        "what has changed while it was looked at is told all the same",
        LEADER_PASS,
        "    if (changed := _changed(look, leader.ask(tip.topic, tip.partition))) is not None:\n",
        "    if (changed := _changed(look, look)) is not None:\n",
        f"{_COMMAND}::test_what_changes_while_it_is_looked_at_is_not_resolved",
    ),
    Mutation(
        "expiration",
        "a limit by size is told as all",
        LEADER_PASS,
        "    if view.retention_bytes >= 0:\n",
        "    if False:\n",
        f"{_COMMAND}::test_bytes_are_at_least_what_is_told",
    ),
    Mutation(
        "expiration",
        "what was due long ago is due since now",
        OVERDUE,
        "min(known.get(segment, now_ms), now_ms)",
        "now_ms",
        f"{_COMMAND}::test_what_was_due_six_hours_ago_is_overdue",
    ),
    Mutation(
        "expiration",
        "a segment is overdue that became due by other settings",
        OVERDUE,
        "    known = before.since_ms if before is not None and same else {}\n",
        "    known = before.since_ms if before is not None else {}\n",
        f"{_COMMAND}::test_other_settings_begin_anew",
    ),
    Mutation(
        "expiration",
        "what is not told in one run was never due",
        "features/retention/steps.py",
        "        due = {**before.partitions, **{",
        "        due = {**{",
        f"{_COMMAND}::test_what_is_not_resolved_is_not_forgotten",
    ),
    Mutation(
        "expiration",
        "a leader that passes seldom is called stuck",
        OVERDUE,
        "max(LATE_MS, LATE_PASSES * interval_ms)",
        "LATE_MS",
        f"{_COMMAND}::test_a_leader_has_time_for_three_passes",
    ),
    Mutation(
        "expiration",
        "what is due by this machine's clock alone is told",
        LEADER_PASS,
        "-1 if times.passed_ms is None else min(times.passed_ms, times.now_ms)",
        "times.now_ms",
        f"{_COMMAND}::test_without_a_brokers_clock_what_is_due_by_a_time_that_has_passed_is_told",
    ),
]
