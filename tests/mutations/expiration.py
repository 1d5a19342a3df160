# SPDX-License-Identifier: Apache-2.0
"""Mutations of what a leader is said to delete next: each would call a segment expired that stays, or the other way round."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

EXPIRATION_RULE = "features/retention/expiration.py"

LINEAGE = "features/retention/leader_lineage.py"
OVERDUE = "features/retention/overdue.py"
LEADER_PASS = "features/retention/leader_pass.py"
KEPT = "features/retention/kept_lineages.py"
DOUBTED = "core/log/doubted_segments.py"
LEADERS = "core/log/kafka/leaders.py"

_COMMAND = "cli/test_retention.py"
_OPERATOR = "airflow/operators/test_leader_retention_operator.py"
_LEADERS = "core/log/kafka/test_leaders.py"
_TESTS = "features/retention/test_expiration.py"
_RECORDED = f"{_TESTS}::test_what_kafkas_own_task_deleted"
_ORDER = f"{_TESTS}::test_where_the_order_of_hashes_decides_nothing_is_certain"
_REFERENCED = f"{_TESTS}::test_a_segment_that_reaches_into_the_earliest_epoch_is_referenced"
_UNDECIDED = f"{_TESTS}::test_what_a_leader_epoch_index_does_not_tell_is_undecided"


def _mutation(name: str, old: str, new: str, test: str = _RECORDED) -> Mutation:
    return Mutation("expiration", name, EXPIRATION_RULE, old, new, test)


HANGING = "features/retention/hanging_copies.py"
_HANGING = "features/retention/test_hanging_copies.py::"
CLOSED = "features/retention/closed_segments.py"
_CLOSED = "features/retention/test_closed_segments.py::"

EXPIRATION = [
    Mutation(
        "hanging copies",
        "forgets since when a leader is behind",
        HANGING,
        "    if before is not None and before.copied_to == progress.copied_to:\n",
        "    if False:\n",
        f"{_HANGING}test_what_is_remembered_of_a_leader",
    ),
    Mutation(
        "hanging copies",
        "takes a leader for stuck that has copied since",
        HANGING,
        "before.copied_to == progress.copied_to",
        "True",
        f"{_HANGING}test_what_is_remembered_of_a_leader",
    ),
    Mutation(
        "hanging copies",
        "takes a leader that was not told for one that goes on",
        HANGING,
        "        return before\n    if not progress",
        "        return None\n    if not progress",
        f"{_HANGING}test_what_is_remembered_of_a_leader",
    ),
    Mutation(
        "hanging copies",
        "takes the active segment for one that hangs",
        HANGING,
        "self.waiting > self.usual)",
        "self.waiting > 0)",
        f"{_HANGING}test_as_much_as_three_segments_hold_always_waits",
    ),
    Mutation(
        "hanging copies",
        "takes a leader whose times are not told for one that goes on",
        HANGING,
        "    if not progress.is_behind and (progress.is_closed is not None or before is None):",
        "    if not progress.is_behind:",
        f"{_HANGING}test_what_is_remembered_of_a_leader",
    ),
    Mutation(
        "hanging copies",
        "takes old records of an active segment for ones that should have been copied",
        CLOSED,
        "first > waiting[tip].progress.copied_to",
        "True",
        f"{_CLOSED}test_old_records_of_an_idle_user_partition_wait_in_its_active_segment",
    ),
    Mutation(
        "hanging copies",
        "does not see that an idle segment should have been closed",
        CLOSED,
        "now_ms - newest.timestamp_ms > idle_ms",
        "False",
        f"{_CLOSED}test_old_records_of_an_idle_user_partition_wait_in_its_active_segment",
    ),
    Mutation(
        "hanging copies",
        "says nothing of leaders that have never copied",
        "features/retention/leader_sweep.py",
        " or tip.topic in copied",
        "",
        "cli/test_retention.py::test_a_leader_that_has_never_copied_anything_is_told_in_a_later_run",
    ),
    Mutation(
        "hanging copies",
        "counts before a copy was due",
        "core/log/copy_lag.py",
        "    if lag.copies_at_once:\n        return 0\n",
        "    return 0\n",
        f"{_HANGING}test_the_time_counts_from_when_a_copy_was_due",
    ),
    # -- which segments the walk meets
    Mutation(
        "expiration",
        "the segments of an epoch always come by their start offsets",
        "core/records/cache.py",
        "        return _by_start_offset(segments) if state.unreferenced else segments\n",
        "        return _by_start_offset(segments)\n",
        _RECORDED,
    ),
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
        "a segment goes with one epoch below the lineage", "last = max(epoch for", "last = min(epoch for", _REFERENCED
    ),
    _mutation("the earliest epoch is unreferenced", "if last < earliest and", "if last <= earliest and", _REFERENCED),
    _mutation(
        "the earliest epoch is that of before the pass",
        "truncate_from_start(_log_start_after(leader, walked)).entries",
        "truncate_from_start(leader.log_start_offset).entries",
        f"{_TESTS}::test_copies_of_a_lost_leader_go_as_soon_as_the_log_begins_behind_its_epoch",
    ),
    _mutation(
        "a log start that cannot be told makes epochs unreferenced for certain",
        "exact=last < for_certain",
        "exact=True",
        f"{_TESTS}::test_what_nobody_can_tell_cuts_no_lineage_for_certain",
    ),
    _mutation(
        "a lineage tells the earliest epoch behind its end",
        "not leader.undecided and not outruns",
        "not leader.undecided",
        f"{_TESTS}::test_behind_a_leader_epoch_index_nobody_knows_the_earliest_epoch",
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
        "if reason in _MOVE_THE_LOG_START:",
        "if reason is Reason.RETENTION_BYTES:",
    ),
    _mutation(
        "what lies below the log start offset is no excess any more",
        "if reason in _MOVE_THE_LOG_START:",
        "if reason is not Reason.DELETION_RETRIED:",
    ),
    _mutation(
        "a deletion that is retried is no excess any more",
        "if reason in _MOVE_THE_LOG_START:",
        "if reason is not Reason.LOG_START_OFFSET:",
    ),
    # -- what nobody can tell
    _mutation(
        "an order that cannot be told is certain",
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
        "a record of any leader epoch confirms a lineage",
        LINEAGE,
        "isinstance(answer, ServedRecord) and answer.leader_epoch == last_epoch_of(metadata)",
        "isinstance(answer, ServedRecord)",
        f"{_COMMAND}::test_what_nobody_can_tell_is_said_and_no_segment_with_it",
    ),
    Mutation(
        "expiration",
        "a lineage that its leader does not confirm counts",
        LINEAGE,
        "why = index if isinstance(index, str) else refused.get(tip)",
        "why = index if isinstance(index, str) else None",
        f"{_COMMAND}::test_what_nobody_can_tell_is_said_and_no_segment_with_it",
    ),
    Mutation(
        "expiration",
        "what reaches further than the segment that keeps the lineage is decided",
        LEADER_PASS,
        "return view if lineage.is_whole else known_up_to(view, lineage.last_epoch, lineage.end_offset)",
        "return view",
        f"{_COMMAND}::test_where_the_newest_segment_is_not_confirmed_an_older_one_tells_of_what_lies_before",
    ),
    Mutation(
        "expiration",
        "what has changed while it was looked at is told all the same",
        LEADER_PASS,
        "    if (changed := _changed(before, after)) is not None:\n",
        "    if (changed := _changed(before, before)) is not None:\n",
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
        "features/retention/leader_memory.py",
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
    # -- many leaders at once
    Mutation(
        "expiration",
        "a lineage stands under any leader",
        KEPT,
        "    if kept is None or leader_epoch is None or kept.leader_epoch != leader_epoch:\n",
        "    if kept is None or leader_epoch is None:\n",
        f"{_COMMAND}::test_a_lineage_is_confirmed_once_while_its_leader_leads",
    ),
    Mutation(
        "expiration",
        "a kept lineage is good enough against newer segments",
        KEPT,
        "    if kept.is_whole or not candidates:\n",
        "    if True:\n",
        f"{_COMMAND}::test_a_lineage_that_ends_before_the_leaders_epoch_is_looked_up_where_a_newer_segment_tells_more",
    ),
    Mutation(
        "expiration",
        "lineages are believed as they lie in the work folder",
        KEPT,
        "strict_json.unsealed(text, _FORMAT)",
        "{k: v for k, v in json.loads(text).items() if k not in ('sha256', 'format_version')}",
        f"{_COMMAND}::test_lineages_that_cannot_be_read_are_asked_for_anew",
    ),
    Mutation(
        "expiration",
        "a lineage is the whole one though its leader began an epoch behind it",
        LINEAGE,
        "self.leader_epoch is not None and self.leader_epochs.entries[-1][0] == self.leader_epoch",
        "self.leader_epoch is not None",
        "features/retention/test_leader_sweep.py"
        "::test_the_end_of_a_segment_is_asked_for_where_what_lies_behind_it_does_not_tell",
    ),
    Mutation(
        "expiration",
        "a leader that has changed meanwhile is told all the same",
        LEADER_PASS,
        "    if now.leader_epoch != before.leader_epoch:\n",
        "    if False:\n",
        f"{_COMMAND}::test_what_changes_while_it_is_looked_at_is_not_resolved",
    ),
    Mutation(
        "expiration",
        "a storage that does not answer is asked for ever",
        LINEAGE,
        "        if self._failed_in_row >= GIVE_UP_AFTER:\n",
        "        if False:\n",
        "features/retention/test_leader_sweep.py::test_a_bucket_that_does_not_answer_is_not_asked_for_ever",
    ),
    Mutation(
        "expiration",
        "a metadata partition that has lost its beginning tells all",
        DOUBTED,
        "            if (lost := lost_beginning(number, begins[number], log.losses.get(number))) is not None:\n",
        "            if (lost := lost_beginning(number, 0, log.losses.get(number))) is not None:\n",
        f"{_COMMAND}::test_a_metadata_partition_that_has_lost_its_beginning_tells_nothing_for_certain",
    ),
    Mutation(
        "expiration",
        "a record that cannot be applied raises no doubt",
        DOUBTED,
        "                self._in_doubt.setdefault(record.metadata_partition, why)\n",
        "                pass\n",
        f"{_COMMAND}::test_a_record_that_cannot_be_applied_leaves_the_user_partitions_of_others",
    ),
    Mutation(
        "expiration",
        "a topic that may not be described is gone",
        LEADERS,
        "            if isinstance(found, NotTold):\n                return found\n",
        "",
        f"{_LEADERS}::test_what_is_wrong_with_one_leaves_the_others",
    ),
    Mutation(
        "expiration",
        "another cluster tells about leaders",
        LEADERS,
        "        if shown != self._metadata_topic_id:\n",
        "        if False:\n",
        f"{_LEADERS}::test_another_cluster_answers_nothing",
    ),
    Mutation(
        "expiration",
        "a leader that is silent has no record",
        LEADERS,
        "        return found | dict.fromkeys(waiting.values(), silent)\n",
        "        return found | dict.fromkeys(waiting.values(), None)\n",
        f"{_LEADERS}::test_silence_is_no_record_and_no_answer_of_others",
    ),
    Mutation(
        "expiration",
        "a log start is asked for after the end",
        LEADERS,
        "                starts = self._admin.list_offsets(chunk, admin_api.OffsetSpec.earliest())\n"
        "                ends = self._admin.list_offsets(chunk, admin_api.OffsetSpec.latest())\n",
        "                ends = self._admin.list_offsets(chunk, admin_api.OffsetSpec.latest())\n"
        "                starts = self._admin.list_offsets(chunk, admin_api.OffsetSpec.earliest())\n",
        f"{_LEADERS}::test_one_look_tells_all_of_many",
    ),
    # -- what is said of it
    Mutation(
        "expiration",
        "a leader that is stuck stays green",
        "operators/leader_retention.py",
        "        if judgement.failing:\n",
        "        if False:\n",
        f"{_OPERATOR}::test_a_leader_that_is_stuck_fails_the_task_until_somebody_acknowledges_it",
    ),
    Mutation(
        "expiration",
        "what was not judged is told as nothing overdue",
        "overview/run_metrics.py",
        "    if report.judged:\n",
        "    if True:\n",
        f"{_OPERATOR}::test_what_cannot_be_told_is_counted_and_fails_nothing",
    ),
    Mutation(
        "expiration",
        "a page takes what was not judged for nothing overdue",
        "plugins/overview.py",
        "    if not found.judged:\n",
        "    if False:\n",
        "airflow/plugins/test_cluster_pages.py::test_what_nobody_can_tell_of_leaders_is_no_zero",
    ),
    Mutation(
        "expiration",
        "what leaders were told of another cluster is shown",
        "overview/documents.py",
        "    if cluster_folder(found.cluster_id) != folder:\n",
        "    if False:\n",
        "airflow/plugins/test_cluster_pages.py::test_what_was_told_of_leaders_and_cannot_be_read_is_said",
    ),
    Mutation(
        "expiration",
        "what is not listed needs no person",
        "features/retention/leader_document.py",
        "(more := self.overdue_partitions - len(self.listed_overdue)) > 0",
        "(more := self.overdue_partitions - len(self.listed_overdue)) < 0",
        f"{_OPERATOR}::test_a_document_is_bounded_and_counts_what_it_does_not_list",
    ),
    Mutation(
        "expiration",
        "what dangles goes by itself",
        LEADER_PASS,
        "now_ms - s.event_timestamp_ms > MIN_AGE.default",
        "False",
        f"{_COMMAND}::test_what_dangles_and_what_is_not_tiered_any_more_have_sums_of_their_own",
    ),
    Mutation(
        "expiration",
        "the doctor takes leaders that were not asked for good ones",
        "features/doctor/living_leaders.py",
        '        yield FindingKind.LEADERS_UNTOLD, _row(), f"it is not known whether a leader is stuck: {why}"\n',
        "",
        "features/doctor/test_living_leaders.py::test_what_nobody_knows_is_a_finding_and_no_zero",
    ),
    Mutation(
        "expiration",
        "an old answer of leaders tells of today",
        "features/doctor/living_leaders.py",
        "    if age_ms > OLD_MS:\n",
        "    if False:\n",
        "features/doctor/test_living_leaders.py::test_what_nobody_knows_is_a_finding_and_no_zero",
    ),
    Mutation(
        "expiration",
        "a clock that runs ahead makes segments overdue",
        "features/retention/leader_memory.py",
        "        if (passed_ms := times.passed_ms) is None:\n",
        "        if (passed_ms := times.now_ms) is None:\n",
        f"{_COMMAND}::test_a_clock_of_this_machine_that_runs_ahead_makes_nothing_overdue",
    ),
    Mutation(
        "expiration",
        "a topic that is hidden was never due",
        "features/retention/steps.py",
        "living = None if topic is not None or untold else",
        "living = None if topic is not None else",
        f"{_COMMAND}::test_what_is_due_is_forgotten_with_its_topic",
    ),
]
