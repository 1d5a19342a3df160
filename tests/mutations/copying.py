# SPDX-License-Identifier: Apache-2.0
"""Mutations that let a copier harm a broker, or lose data of a living topic."""

from __future__ import annotations

from tests.mutations.mutation import COPY_GUARD, HISTORY, WRITE_GUARD, Mutation, switched_off

FOLD_DELETIONS = "core/records/fold/deletions.py"

RULES = "features/copying/rules.py"
SITUATION = "features/copying/copy_situation.py"
COPY_HOLE = "features/copying/copy_hole.py"
CONTEXT = "features/copying/copy_context.py"
COPIER = "features/copying/copier.py"
PREVIEW = "features/copying/copy_preview.py"
SEGMENT_COPY = "features/copying/segment_copy.py"
COPY_SOURCE = "features/copying/copy_source.py"
COMPARISON = "features/copying/leader_comparison.py"
COPY_REPLAY = "features/copying/copy_replay.py"

_COPIER = "features/copying/test_copier.py::"
_HOLES = "features/copying/test_copy_holes.py::"
_RACES = "features/copying/test_copier_races.py::"
_FORBIDDEN = f"{_COPIER}test_a_topic_that_must_not_be_copied_is_refused"
_MID_COPY = f"{_COPIER}test_what_changes_while_a_segment_is_copied_has_it_taken_back"

_GUARD = "core/log/test_copy_guard.py::"
_HARM = f"{_GUARD}test_what_could_harm_a_broker_or_lose_data_is_not_written"


def _guard(name: str, condition: str, test: str = _HARM) -> Mutation:
    return switched_off(COPY_GUARD, "copy guard", name, condition, test)


COPYING = [
    switched_off(
        WRITE_GUARD,
        "copy guard",
        "copies though allow_copy is off",
        "        if not self._allow_copy:",
        f"{_GUARD}test_without_both_rights_nothing_is_written",
    ),
    Mutation(
        "copy guard",
        "copies though allow_writes is off",
        WRITE_GUARD,
        "        self.require_writes(what)\n",
        "",
        f"{_GUARD}test_without_both_rights_nothing_is_written",
    ),
    _guard(
        "copies with an unproven partitioner",
        "    if not state.routing_verified():",
        f"{_GUARD}test_a_partitioner_that_nothing_proves_writes_nothing",
    ),
    _guard(
        "believes the leader of another cluster",
        "    if state.cluster_asked() != log.topic_id:",
        f"{_GUARD}test_a_leader_of_another_cluster_allows_nothing",
    ),
    _guard("a copier speaks for a broker", "    if event.broker_id != COPIER_BROKER_ID:"),
    _guard("copies what was declared deleted", "    if state.was_deleted(tip):"),
    _guard("announces a segment in another state than STARTED", "    if event.state is not _STARTED:"),
    _guard("announces a segment again", "    if state.was_announced(segment_id):"),
    _guard("announces custom metadata", "    if event.custom_metadata is not None:"),
    _guard(
        "announces a segment that cannot be",
        "    if not 0 <= event.start_offset <= event.end_offset or event.segment_size_in_bytes < 1:",
    ),
    _guard("announces leader epochs that do not ascend", "    if not epochs or not ascending or epochs[0][0] < 0:"),
    _guard(
        "announces leader epochs outside of the segment",
        "    if epochs[0][1] < event.start_offset or epochs[-1][1] > event.end_offset:",
    ),
    Mutation(
        "copy guard",
        "does not ask the leader before STARTED",
        COPY_GUARD,
        "    _check_leader_epochs(event)\n    _check_permission(event, state)\n",
        "    _check_leader_epochs(event)\n",
        _HARM,
    ),
    Mutation(
        "copy guard",
        "does not ask the leader before FINISHED",
        COPY_GUARD,
        "        _check_permission(segment.with_update(event), state)\n",
        "        pass\n",
        _HARM,
    ),
    _guard("updates a segment to STARTED", "    if event.state not in _BEFORE:"),
    Mutation(
        "copy guard",
        "updates a segment that it does not know",
        COPY_GUARD,
        "    if segment is None:",
        "    if segment is None:\n        return\n    if False:",
        _HARM,
    ),
    _guard("takes back what somebody else copies", "    if not state.is_ours(segment_id):"),
    _guard("writes what does not follow", "    if segment.state is not _BEFORE[event.state]:"),
    _guard("takes back a finished copy", "    if state.was_copied(segment_id):"),
    _guard(
        "finishes with more custom metadata than brokers allow",
        '        if len(event.custom_metadata or b"") > MAX_CUSTOM_METADATA_BYTES:',
    ),
    Mutation(
        "copy guard",
        "a roll-back replaces custom metadata",
        COPY_GUARD,
        "    elif event.custom_metadata != segment.custom_metadata:",
        "    elif False:",
        _HARM,
    ),
    Mutation(
        "foreign",
        "a copy under the cleaner's id is no sign of life",
        HISTORY,
        "event.broker_id != OWN_BROKER_ID or event.state in COPYING:",
        "event.broker_id != OWN_BROKER_ID:",
        "core/records/test_history.py::test_whoever_copies_is_somebody_else_whatever_id_it_has",
    ),
    Mutation(
        "foreign",
        "a copy under the cleaner's id is no sign of life to the fold",
        FOLD_DELETIONS,
        "((self.broker_id != OWN_BROKER_ID) | copying)",
        "(self.broker_id != OWN_BROKER_ID)",
        "core/world/test_topic_view.py::test_whoever_copies_is_somebody_else_to_the_fold_too",
    ),
    switched_off(
        RULES,
        "may copy",
        "copies the segments of another topic id",
        "    if answer.topic_id_partition != directory:",
        f"{_COPIER}test_a_directory_of_another_topic_id_is_refused",
    ),
    switched_off(
        RULES,
        "may copy",
        "copies an internal topic",
        "    if answer.is_internal:",
        f"{_COPIER}test_an_internal_topic_is_refused",
    ),
    switched_off(
        RULES, "may copy", "copies a topic that is not tiered", "    if not configs.remote_storage_enable:", _FORBIDDEN
    ),
    switched_off(
        RULES, "may copy", "copies beside the broker", "    if not configs.remote_log_copy_disable:", _FORBIDDEN
    ),
    switched_off(
        RULES, "may copy", "copies a compacted topic", '    if configs.cleanup_policy != {"delete"}:', _FORBIDDEN
    ),
    switched_off(
        RULES,
        "may copy",
        "takes a leader of unknown size for an empty one",
        "    if answer.local_size_in_bytes is None:",
        f"{_COPIER}test_retention_bytes_must_have_room_for_what_is_counted_twice",
    ),
    Mutation(
        "may copy",
        "does not count the local bytes twice",
        RULES,
        "    total = answer.local_size_in_bytes + remote_bytes + segment.segment_size_in_bytes\n",
        "    total = answer.local_size_in_bytes\n",
        f"{_COPIER}test_retention_bytes_must_have_room_for_what_is_counted_twice",
    ),
    switched_off(
        RULES,
        "no hole",
        "copies behind a gap",
        "    if first_offset > from_offset:",
        f"{_COPIER}test_a_gap_above_the_leaders_log_start_is_refused",
    ),
    Mutation(
        "no hole",
        "takes the base offset for what the lineage knows",
        RULES,
        "        return self.leader_epochs[0][1]\n",
        "        return self.base_offset\n",
        f"{_COPIER}test_offsets_that_the_directorys_lineage_does_not_know_are_a_gap",
    ),
    switched_off(
        RULES,
        "committed",
        "copies beyond the committed end",
        "        if segment.end_offset >= end_offset:",
        f"{_COPIER}test_nothing_is_copied_beyond_the_committed_end",
    ),
    Mutation(
        "retention",
        "all that the log has expires",
        RULES,
        "        if base > expired or max_timestamp_ms >= until_ms:",
        "        if base > expired:",
        "features/copying/test_copying.py::test_what_the_leader_is_about_to_delete_ends_at_a_segment",
    ),
    Mutation(
        "retention",
        "believes to know how old unknown offsets are",
        RULES,
        "        if base > expired or max_timestamp_ms >= until_ms:",
        "        if max_timestamp_ms >= until_ms:",
        "features/copying/test_copying.py::test_nothing_is_known_to_expire_behind_offsets_that_nobody_knows",
    ),
    Mutation(
        "no hole",
        "stays green over segments that are left to expire",
        COPIER,
        "            ends.insert(0, _End(ahead, needs_person=True))",
        "            ends.insert(0, _End(ahead, needs_person=False))",
        f"{_COPIER}test_segments_that_are_about_to_expire_are_left_out_and_need_a_person",
    ),
    Mutation(
        "no hole",
        "is green over a log directory that lacks what was left out",
        COPIER,
        "        expiring, hole = situation.candidates().expiring, situation.hole()\n",
        "        expiring, hole = situation.candidates().expiring, None\n",
        f"{_HOLES}test_a_log_directory_that_lacks_what_was_left_out_does_not_hide_it",
    ),
    Mutation(
        "no hole",
        "promises in a dry run that no hole is left",
        PREVIEW,
        "    return replace(found, hole=situation.hole(found.segments[: context.limits.max_segments]))\n",
        "    return found\n",
        f"{_HOLES}test_a_log_directory_that_lacks_what_was_left_out_does_not_hide_it",
    ),
    Mutation(
        "no hole",
        "forgets in a dry run that max_segments ends the copy",
        PREVIEW,
        "situation.hole(found.segments[: context.limits.max_segments])",
        "situation.hole(found.segments)",
        f"{_HOLES}test_a_run_that_ends_at_max_segments_leaves_no_hole_in_green",
    ),
    Mutation(
        "no hole",
        "forgets a copy that was deleted, behind which brokers go on",
        COPY_HOLE,
        "    highest = max([*ever_copied, *(segment.end_offset for segment in planned[-1:])], default=-1)\n",
        "    highest = max([m.end_offset for m in cache.list_remote_log_segments()], default=-1)\n",
        f"{_HOLES}test_brokers_go_on_behind_a_copy_that_was_deleted_since",
    ),
    Mutation(
        "no hole",
        "is green over a log directory whose active segment begins behind a gap",
        RULES,
        "    first_offset = wanted[0].first_offset if wanted else active_offset\n",
        "    first_offset = wanted[0].first_offset if wanted else from_offset\n",
        f"{_HOLES}test_what_lies_between_the_copies_and_an_active_segment_is_missed",
    ),
    Mutation(
        "no hole",
        "is green though nobody could tell how far it came",
        COPIER,
        '            ends.append(_End(f"how far it is copied cannot be told: {e}", needs_person=not e.retriable))\n',
        "",
        f"{_HOLES}test_a_run_that_cannot_tell_how_far_it_came_is_not_green",
    ),
    Mutation(
        "no hole",
        "tells of what is left to expire only where nothing else ends the run",
        COPIER,
        "        if (ahead := hole_ahead(tip.topic, tip.partition, expiring, hole)) is not None:",
        "        if not work.end.why and (ahead := hole_ahead(tip.topic, tip.partition, expiring, hole)) is not None:",
        f"{_COPIER}test_whatever_ends_a_run_what_it_leaves_to_expire_is_told",
    ),
    Mutation(
        "no hole",
        "names a log start offset below the hole's end",
        COPY_HOLE,
        "is at least {max(ends) + 1} ",
        "is at least {max(ends)} ",
        f"{_COPIER}test_segments_that_are_about_to_expire_are_left_out_and_need_a_person",
    ),
    Mutation(
        "retention",
        "waits for the deletion of what is copied, too",
        SITUATION,
        "s.end_offset < expires_before and not self._is_copied(s))",
        "s.end_offset < expires_before)",
        f"{_COPIER}test_what_is_copied_and_expires_by_now_is_not_waited_for",
    ),
    switched_off(
        SITUATION,
        "may copy",
        "copies what is held",
        "        if (held := self.hold.refusal_of(tip, ())) is not None:",
        f"{_COPIER}test_a_held_topic_is_refused",
    ),
    switched_off(
        SITUATION,
        "may copy",
        "copies without a leader unasked",
        "        if self.answer.offsets is None and not self.without_leader:",
        f"{_COPIER}test_a_partition_without_a_leader_is_refused",
    ),
    switched_off(
        SITUATION,
        "one copier",
        "copies beside a broker that has begun",
        "            elif other.state is _STARTED and other.broker_id != COPIER_BROKER_ID:",
        f"{_COPIER}test_a_brokers_unfinished_copy_is_waited_for_and_never_touched",
    ),
    switched_off(
        SITUATION,
        "one copier",
        "goes on though another copier was announced first",
        "            elif other.state is _STARTED and before_ours:",
        "features/copying/test_copying.py::test_whoever_was_announced_first_goes_on",
    ),
    switched_off(
        SITUATION,
        "no hole",
        "finishes a copy that the log start has passed",
        "        if metadata.end_offset < self.log_start_offset:",
        "features/copying/test_copying.py::test_what_nobody_reads_any_more_is_not_copied",
    ),
    switched_off(
        SITUATION,
        "committed",
        "finishes what the leader has not committed any more",
        "        if metadata.end_offset >= self.committed_end:",
        "features/copying/test_copying.py::test_what_is_not_committed_is_not_copied",
    ),
    switched_off(
        SITUATION,
        "one copier",
        "finishes a copy of what somebody else has copied meanwhile",
        "        if metadata.end_offset < next_offset and not self._expires(metadata):",
        "features/copying/test_copying.py::test_what_is_in_remote_storage_is_not_copied_again",
    ),
    switched_off(
        SITUATION,
        "no hole",
        "announces what begins behind a gap",
        "        if metadata.segment_leader_epochs[0][1] > next_offset:",
        "features/copying/test_copying.py::test_what_begins_behind_a_gap_is_not_announced",
    ),
    switched_off(
        SITUATION,
        "lineage",
        "announces what nothing proves to be the leader's",
        "        if not self.without_leader and (self.proven_end is None or metadata.end_offset >= self.proven_end):",
        "features/copying/test_copying.py::test_what_is_not_proven_is_not_announced",
    ),
    switched_off(
        SITUATION,
        "retention",
        "finishes what the leader is about to delete",
        "        if self._expires(metadata):",
        f"{_COPIER}test_a_segment_that_is_about_to_expire_when_it_was_copied_is_taken_back",
    ),
    Mutation(
        "lineage",
        "compares the end of a segment alone",
        COMPARISON,
        "    for record in records:\n",
        "    for record in records[-1:]:\n",
        f"{_COPIER}test_the_end_of_each_leader_epoch_is_compared",
    ),
    switched_off(
        COMPARISON,
        "lineage",
        "believes what lies behind the last record of a segment",
        "    if not records or records[-1].offset < segment.end_offset:",
        f"{_COPIER}test_a_segment_that_ends_in_a_marker_is_proven_by_the_record_behind_it",
    ),
    Mutation(
        "lineage",
        "takes a record that the leader does not serve for equal",
        COMPARISON,
        "    if theirs == ours:",
        "    if theirs is None or theirs == ours:",
        f"{_COPIER}test_a_leader_that_serves_no_record_there_proves_nothing",
    ),
    switched_off(
        COPIER,
        "whose storage",
        "copies into a storage that nothing proves",
        "        if not check.verified:",
        f"{_COPIER}test_a_storage_that_nothing_proves_is_not_written_to",
    ),
    switched_off(
        COPIER,
        "whose storage",
        "copies into a storage that lacks the newest copy",
        "        if missing := storage.missing_keys(storage.layout.required_keys(newest)):",
        f"{_COPIER}test_a_storage_that_lacks_the_newest_copy_is_not_the_brokers",
    ),
    switched_off(
        COPIER,
        "lease",
        "takes back what another run is copying",
        "            if not self._context.limits.is_abandoned(metadata.event_timestamp_ms, self._context.clock()):",
        f"{_RACES}test_a_run_of_another_lease_is_not_disturbed_before_its_own_ends",
    ),
    Mutation(
        "lease",
        "never takes back what a dead run has left",
        COPIER,
        "            work.copier.take_back(metadata)\n",
        "",
        f"{_RACES}test_killed_at_any_effect_the_next_run_converges",
    ),
    switched_off(
        COPIER,
        "kill switch",
        "begins to copy though the switch is on",
        "            if (why := self._context.gate.why_stopped()) is not None:",
        f"{_COPIER}test_the_kill_switch_keeps_a_run_from_beginning",
    ),
    Mutation(
        "lease",
        "finishes a copy whose lease is lost",
        SEGMENT_COPY,
        "        _require(lease.why_lost())\n",
        "",
        "features/copying/test_copier.py::test_a_copy_that_is_seen_too_late_is_taken_back",
    ),
    Mutation(
        "one copier",
        "does not look who was announced first",
        SEGMENT_COPY,
        "            _require(situation.obstacle_to(metadata))\n",
        "",
        f"{_RACES}test_two_copiers_at_once_never_copy_at_once",
    ),
    Mutation(
        "may copy",
        "does not look again before FINISHED",
        SEGMENT_COPY,
        "        situation = self.look(proof.end)\n        _require(situation.obstacle_to(finished))\n",
        "        situation = self.look(proof.end)\n",
        _MID_COPY,
    ),
    switched_off(
        SEGMENT_COPY,
        "whole copy",
        "finishes what is not seen in storage",
        "        if missing := storage.missing_keys(storage.layout.required_keys(finished)):",
        f"{_COPIER}test_an_object_that_is_not_seen_is_not_finished",
    ),
    Mutation(
        "whole copy",
        "takes what was verified ahead of another segment for this one",
        COPY_SOURCE,
        "        if expected is not None and expected[0] == segment:\n",
        "        if expected is not None:\n",
        "features/copying/test_directory_source.py::test_another_segment_than_the_expected_one_is_verified_itself",
    ),
    Mutation(
        "whole copy",
        "finishes a copy of files that have changed",
        SEGMENT_COPY,
        "        ready.check_unchanged()\n",
        "",
        f"{_COPIER}test_files_that_change_while_they_are_copied_have_the_copy_taken_back",
    ),
    switched_off(
        SEGMENT_COPY,
        "custom metadata",
        "leaves a copy with too much custom metadata",
        '        if len(custom_metadata or b"") > MAX_CUSTOM_METADATA_BYTES:',
        f"{_COPIER}test_custom_metadata_that_brokers_do_not_take_has_the_copy_taken_back",
    ),
    Mutation(
        "no hole",
        "deletes the objects of a copy that was finished at the last moment",
        SEGMENT_COPY,
        "        if self.replay.was_copied(segment_id):\n            logger.error(",
        "        if False:\n            logger.error(",
        f"{_RACES}test_a_finished_that_comes_after_its_lease_was_lost_leaves_no_hole",
    ),
    Mutation(
        "roll-back",
        "calls deleted what still has objects",
        SEGMENT_COPY,
        "        if deletion.outcome not in (DeleteOutcome.GONE, DeleteOutcome.NEVER_SEEN):",
        "        if False:",
        f"{_COPIER}test_objects_that_cannot_be_deleted_keep_a_roll_back_open",
    ),
    Mutation(
        "doubt",
        "passes over a record that nobody can read",
        COPY_REPLAY,
        "        if record.topic_id_partition in (None, tip):",
        "        if False:",
        f"{_COPIER}test_a_record_that_nobody_can_read_forbids_to_copy",
    ),
    Mutation(
        "doubt",
        "copies by a log that has lost its beginning",
        COPY_REPLAY,
        "        self._follower.require_whole(\n",
        "        str(\n",
        f"{_COPIER}test_a_log_that_has_lost_its_beginning_forbids_to_copy",
    ),
    switched_off(
        COPY_REPLAY,
        "doubt",
        "copies by a history that is incomplete",
        "        if self.history.without_add:",
        f"{_COPIER}test_an_update_without_its_announcement_forbids_to_copy",
    ),
    Mutation(
        "copy guard",
        "forgets that a deletion was announced",
        COPY_REPLAY,
        "            self.was_deleted = True\n            return\n",
        "            return\n",
        f"{_COPIER}test_a_deletion_that_was_ever_announced_forbids_every_event",
    ),
    Mutation(
        "roll-back",
        "takes for its own what somebody else has written about, too",
        COPY_REPLAY,
        "        return self._writers.get(segment_id.id) == {COPIER_BROKER_ID}",
        "        return COPIER_BROKER_ID in self._writers.get(segment_id.id, ())",
        f"{_RACES}test_a_dangling_copy_of_ours_that_a_leader_has_begun_to_delete_is_left_to_it",
    ),
    switched_off(
        CONTEXT,
        "may copy",
        "announces what its layout cannot take",
        "        if (obstacle := self.storage.obstacle_to_copies()) is not None:",
        f"{_COPIER}test_a_layout_that_does_not_say_where_files_lie_is_refused_before_the_first_event",
    ),
    Mutation(
        "may copy",
        "takes a layout that knows where the log lies for one that knows all",
        "core/storage/layouts.py",
        "for kind in (None, *IndexType) if kind not in self._files",
        "for kind in (None,) if kind not in self._files",
        f"{_COPIER}test_a_layout_that_does_not_say_where_files_lie_is_refused_before_the_first_event",
    ),
    Mutation(
        "roll-back",
        "takes back somebody else's copy",
        COPY_REPLAY,
        "            and self.is_ours(metadata.remote_log_segment_id)\n",
        "",
        f"{_RACES}test_somebody_elses_dangling_copy_is_not_among_those_that_may_be_taken_back",
    ),
]
