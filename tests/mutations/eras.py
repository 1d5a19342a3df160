# SPDX-License-Identifier: Apache-2.0
"""Breaks the era of the log: whether anything is written where records have keys, or may be compacted."""

from __future__ import annotations

from tests.mutations.mutation import (
    EVENT_ENCODING,
    LOST_RECORDS,
    RETENTION_OPERATORS,
    WRITE_GUARD,
    Mutation,
    switched_off,
)

ERA = "core/records/era.py"
FLOORED_LOG = "core/log/floored_log.py"
FLOORS = "core/log/floors.py"
KEYS = "core/records/keys.py"
SERDE = "core/records/serde.py"
DECODE = "core/records/decoding/decode.py"
_KEYED = "core/records/test_keyed_records.py::"
_FLOOR = "core/log/test_floored_log.py::"
_GUARD = "core/log/test_write_guard.py::"
_ONCE = f"{_FLOOR}test_a_topic_that_was_compacted_once_stays_compacted"
_KEY = f"{_FLOOR}test_a_key_that_names_its_record_is_seen_and_remembered_and_no_reason_for_less_than_compaction"

FOLDING = "core/generations/folding.py"
FOLLOWER = "core/log/follower.py"
_GAPS = "features/retention/test_log_gaps.py::"
HISTORIES = "core/records/histories.py"
LOCATED = "core/records/located.py"
REPLAY = "core/world/replay.py"
_FOLLOWER = "core/log/test_follower.py::"
_WHOLE = "features/cleanup/test_wholeness.py::"
_HOLE = f"{_WHOLE}test_a_segment_whose_copy_may_have_been_finished_in_a_hole_of_the_log_is_never_finished"

_COMPACTED = f"{_WHOLE}test_in_a_compacted_log_nobody_knows_that_a_segment_was_never_copied"
_FORGOTTEN = f"{_WHOLE}test_what_the_log_cleaner_was_asked_to_forget_is_not_finished_for_that"
_SAID_BEFORE = f"{_WHOLE}test_a_segment_is_judged_by_what_was_said_before_it_was_to_be_forgotten"
_COPIED_AGAIN = f"{_WHOLE}test_a_copy_that_follows_under_the_key_of_one_that_failed_is_not_what_was_to_be_forgotten"
_SKIPPED = f"{_WHOLE}test_a_segment_that_was_finished_and_of_whose_deletion_nothing_else_is_left_is_uncertain"
_MISSING_STEP = (
    "features/doctor/test_examine.py::test_a_step_that_is_missing_is_no_illegal_one_where_the_log_cleaner_takes_them"
)
_NO_GAP = f"{_WHOLE}test_in_a_compacted_log_everybody_is_under_proof_and_no_gap_needs_a_reason"

COMPACTED = [
    Mutation(
        "I12",
        "a scrub is green though its deletion would be refused for the era of the log",
        "features/scrub/scrub_summary.py",
        "    yield from _of_the_era(summary)\n",
        "",
        "cli/test_lost_log.py::test_the_era_of_the_log_is_said_and_a_dry_run_is_red_where_a_real_one_is_refused",
    ),
    Mutation(
        "I18",
        "the cleaner takes a segment whose deletion was finished and not started for one without a deletion",
        "core/records/history.py",
        "state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED and update.end_offset != NOT_SAID",
        "state is None",
        _SKIPPED,
    ),
    Mutation(
        "I18",
        "the plan takes a segment whose deletion was finished and not started for one without a deletion",
        "core/records/fold/unresolved.py",
        "    skipping = _skipping(part, api_state)\n",
        "    skipping = np.empty(0, np.int64)\n",
        _SKIPPED,
    ),
    Mutation(
        "I18",
        "the last records of a compacted log are the same without the newest",
        "core/log/log_tail.py",
        "bool(now) and now[-1:] == before[-1:] and set(now)",
        "bool(now) and set(now)",
        f"{_FLOOR}test_a_compacted_log_is_known_by_what_is_left_of_its_last_records_and_by_the_newest",
    ),
    Mutation(
        "I18",
        "what is read of a compacted log is another one where the log cleaner has been",
        FLOORED_LOG,
        "batch, may_lack=self.era.era is not Era.PLAIN)",
        "batch, may_lack=False)",
        f"{_FLOOR}test_a_run_reads_on_where_the_log_cleaner_has_been_as_long_as_the_newest_record_is_there",
    ),
    Mutation(
        "I18",
        "what is read of a log that is not compacted may lack records that were there",
        FLOORED_LOG,
        "batch, may_lack=self.era.era is not Era.PLAIN)",
        "batch, may_lack=True)",
        f"{_FLOOR}test_a_log_that_is_not_compacted_is_known_by_all_of_its_last_records",
    ),
    Mutation(
        "I18",
        "a log that is not compacted may lack some of its last records",
        FLOORED_LOG,
        "may_lack=era.era is not Era.PLAIN)",
        "may_lack=True)",
        f"{_FLOOR}test_a_log_that_is_not_compacted_is_known_by_all_of_its_last_records",
    ),
    Mutation(
        "I18",
        "who follows a log that is not compacted misses none of its last records",
        FOLLOWER,
        "        return self._log.era.era is not Era.PLAIN\n",
        "        return True\n",
        f"{_FOLLOWER}test_who_goes_on_knows_a_compacted_log_by_the_newest_record",
    ),
    switched_off(
        "features/scrub/scrub_reading.py",
        "I18",
        "a scrub believes what a compacted log does not say",
        "        if (era := self.state.era).era is Era.COMPACTED:",
        "features/scrub/test_scrub.py::test_in_a_compacted_log_nobody_knows_what_would_be_unreferenced",
    ),
    Mutation(
        "I22",
        "a plan does not say that nothing of it would be deleted",
        "features/cleanup/planner.py",
        "        draft.refuse(refusals_of_era(era))\n",
        "",
        _NO_GAP,
    ),
    Mutation(
        "I2",
        "a segment was never copied where the log is compacted and does not say so",
        REPLAY,
        "        return not self.holes and self.era.era is not Era.COMPACTED\n",
        "        return not self.holes\n",
        _COMPACTED,
    ),
    switched_off(
        REPLAY,
        "I18",
        "a compacted log puts nothing in doubt",
        "        if self.era.era is Era.COMPACTED:",
        _NO_GAP,
    ),
    Mutation(
        "I18",
        "the cleaner takes what is to be forgotten for nothing",
        HISTORIES,
        "                located.apply_to(history)\n            return\n",
        "                pass\n            return\n",
        _FORGOTTEN,
    ),
    Mutation(
        "I18",
        "the plan takes what is to be forgotten for nothing",
        "core/records/fold/apply.py",
        "            self._forgetting.note(last)\n",
        "",
        _FORGOTTEN,
    ),
    Mutation(
        "I18",
        "the plan judges what is to be forgotten by all of its batch",
        "core/records/fold/apply.py",
        "*self._forgetting.breaks(self._segment_ids), ",
        "",
        _SAID_BEFORE,
    ),
    Mutation(
        "I18",
        "the cleaner judges what is to be forgotten by all of its batch",
        LOCATED,
        "merge(zip(rows, events, strict=True), asked, key=itemgetter(0))",
        "iter([*zip(rows, events, strict=True), *asked])",
        _SAID_BEFORE,
    ),
    Mutation(
        "I18",
        "the library takes what is to be forgotten for nothing",
        "library/metadata_store.py",
        "                        view.apply(located)\n",
        "                        pass\n",
        "library/test_metadata_store.py::"
        "test_what_is_to_be_forgotten_reaches_every_name_of_its_topic_id_and_is_judged_once",
    ),
    Mutation(
        "I18",
        "a copier takes what is to be forgotten for nothing",
        "features/copying/copy_replay.py",
        "            self._histories.apply(located)\n",
        "            if isinstance(located, LocatedEvent):\n                self._histories.apply(located)\n",
        "features/copying/test_copier.py::test_a_segment_that_is_to_be_forgotten_and_was_not_finished_forbids_to_copy",
    ),
    Mutation(
        "I18",
        "a copy is taken for the failed one whose key is to be forgotten",
        "core/records/fold/apply.py",
        "*self._forgetting.breaks(self._segment_ids), ",
        "",
        _COPIED_AGAIN,
    ),
    Mutation(
        "I18",
        "what is to be forgotten by the end offset of a segment is another one's",
        KEYS,
        "        named = tip.topic_id, tip.partition, metadata.end_offset\n",
        "        named = tip.topic_id, tip.partition, metadata.start_offset\n",
        _FORGOTTEN,
    ),
    switched_off(
        FOLLOWER,
        "I18",
        "who needs a whole history follows a compacted log",
        "        if self._otherwise is not None and (era := self._log.era).era is Era.COMPACTED:",
        f"{_FOLLOWER}test_who_needs_a_whole_history_does_not_follow_a_compacted_log",
    ),
]

SPARK = [
    Mutation(
        "I18",
        "the Spark job passes over offsets without a record",
        FOLDING,
        '        self._note_holes(records["offset"][-1].as_py() + 1, [records])\n',
        '        self._next_offset = records["offset"][-1].as_py() + 1\n',
        f"{_GAPS}test_every_offset_above_the_beginning_that_holds_no_record_is_a_gap",
    ),
    Mutation(
        "I18",
        "the Spark job passes over offsets without a record at the end of the log",
        FOLDING,
        "        self._note_holes(offset, [])\n",
        "",
        f"{_GAPS}test_every_offset_above_the_beginning_that_holds_no_record_is_a_gap",
    ),
    Mutation(
        "I18",
        "the Spark job forgets the offsets without a record that it was told of by an earlier run",
        FOLDING,
        "        self.holes, self.more_holes = self._before.holes, self._before.more_holes\n",
        "        self.holes, self.more_holes = (), 0\n",
        f"{_GAPS}test_a_run_that_reads_on_knows_the_gaps_before_and_those_that_are_new",
    ),
    switched_off(
        "features/retention/spark/log_refusals.py",
        "I18",
        "the word of a person covers offsets that are no longer known",
        "        if part.more_holes and not unsaid:",
        f"{_GAPS}test_nobodys_word_covers_gaps_that_are_not_named",
    ),
    Mutation(
        "I18",
        "the Spark job sees no key",
        FOLDING,
        "            self.keyed_at = keyed_offset(records)\n",
        "            pass\n",
        f"{_GAPS}test_a_key_that_names_its_record_is_remembered_and_no_other",
    ),
    Mutation(
        "I18",
        "a plan of Spark is green where earlier runs have seen a compacted topic",
        RETENTION_OPERATORS,
        "                lost += refusals_of_era(log.era)\n",
        "                pass\n",
        "airflow/operators/test_operators.py::"
        "test_a_plan_of_a_log_that_may_lack_records_is_published_and_fails_also_where_the_job_did_not_see_it",
    ),
]

HOLES = [
    Mutation(
        "I18",
        "offsets without a record are passed over",
        FOLLOWER,
        "        for number, start, end in missing:\n            chunk.holes",
        "        for number, start, end in ():\n            chunk.holes",
        f"{_FOLLOWER}test_offsets_without_a_record_are_holes_wherever_they_lie",
    ),
    switched_off(
        LOST_RECORDS,
        "I18",
        "offsets without a record at the end of the log are passed over",
        "    if start < end:",
        f"{_FOLLOWER}test_offsets_without_a_record_are_holes_wherever_they_lie",
    ),
    switched_off(
        FOLLOWER,
        "I18",
        "who needs a whole history is not told of what is missing in its midst",
        "        if self._otherwise is not None and (holes := self.open_holes()):",
        f"{_FOLLOWER}test_who_needs_a_whole_history_is_told_of_each_hole_that_comes",
    ),
    Mutation(
        "I18",
        "the cause of some offsets explains others",
        LOST_RECORDS,
        "        return start <= self.start and self.end <= end\n",
        "        return start <= self.start\n",
        f"{_FOLLOWER}test_holes_of_which_somebody_has_said_why_are_no_open_ones",
    ),
    Mutation(
        "I18",
        "offsets without a record put nothing in doubt",
        REPLAY,
        "        if self.holes:\n            return Doubt(self.holes[0].why, number, self.holes[0].end)\n",
        "",
        f"{_WHOLE}test_a_hole_puts_everybody_under_proof_and_its_cause_ends_that",
    ),
    Mutation(
        "I2",
        "a segment was never copied where the record that said so may be missing",
        "features/cleanup/eligibility.py",
        "    known = context.replay.copied_is_known\n",
        "    known = True\n",
        _HOLE,
    ),
    Mutation(
        "I2",
        "by hand a segment was never copied where the record that said so may be missing",
        "features/cleanup/publishing.py",
        "            replay.copied_is_known,\n",
        "            True,\n",
        "features/cleanup/test_publishing.py::"
        "test_a_segment_whose_copy_may_have_been_finished_in_a_hole_of_the_log_is_not_finished",
    ),
    Mutation(
        "I2",
        "what is not known of a copy counts as that there was none",
        "features/cleanup/eligibility.py",
        "        was_copied=segment_id in history.copied or not copied_is_known,\n",
        "        was_copied=segment_id in history.copied,\n",
        _HOLE,
    ),
    Mutation(
        "I14",
        "a snapshot forgets which offsets held no record",
        "core/log/topic_state.py",
        "            holes=self._follower.holes,\n",
        "",
        "core/log/test_topic_state.py::test_a_snapshot_remembers_the_holes_that_were_read",
    ),
    Mutation(
        "I13",
        "a scrub believes what a log does not name though offsets of it hold no record",
        "features/scrub/scrub_reading.py",
        "        for hole in self.state.holes:\n",
        "        for hole in ():\n",
        "features/scrub/test_scrub.py::test_a_hole_of_the_log_makes_unknown_what_would_be_unreferenced",
    ),
    Mutation(
        "I18",
        "a cause is taken for offsets that hold a record",
        FLOORED_LOG,
        '            offset = batch.column("offset")[0].as_py()\n            raise LostRecordsError(',
        '            offset = batch.column("offset")[0].as_py()\n            LostRecordsError(',
        f"{_FLOOR}test_only_offsets_that_hold_no_record_have_a_cause",
    ),
    Mutation(
        "I18",
        "the cause that was said of another metadata topic counts",
        FLOORS,
        "for m in self._of_topic(_GAP, topic_id))\n",
        "for m in filter(None, map(_GAP.fullmatch, self._names())))\n",
        f"{_FLOOR}test_a_cause_is_of_one_metadata_topic",
    ),
]

ERAS = [
    *HOLES,
    *SPARK,
    *COMPACTED,
    switched_off(
        WRITE_GUARD,
        "I22",
        "the guard writes in every era",
        "        if (why := era.why_not_written()) is not None:",
        f"{_GUARD}test_nothing_is_changed_where_records_have_keys_or_may_be_compacted",
    ),
    Mutation(
        "I22",
        "a log that is not remembered is plain",
        WRITE_GUARD,
        "era_of_policy(self._log.cleanup_policy()) if",
        'era_of_policy({"delete"}) if',
        f"{_GUARD}test_where_nobody_remembers_the_log_its_configuration_is_asked_each_time",
    ),
    Mutation(
        "I22",
        "a topic that has keys and is not compacted may be written to",
        ERA,
        "        if self.era is Era.PLAIN:",
        "        if self.era is not Era.COMPACTED:",
        f"{_GUARD}test_nothing_is_changed_where_records_have_keys_or_may_be_compacted",
    ),
    Mutation(
        "I22",
        "a topic that is compacted and deleted from is plain",
        ERA,
        "if COMPACT in names else PLAIN_ERA",
        "if names == [COMPACT] else PLAIN_ERA",
        _ONCE,
    ),
    Mutation(
        "I22",
        "a run forgets the era that an earlier one has seen",
        FLOORED_LOG,
        "        era = now.or_later(before)\n",
        "        era = now\n",
        _ONCE,
    ),
    switched_off(
        FLOORED_LOG,
        "I22",
        "the era is not written down",
        "        if self.era.era > self._kept_era:",
        _ONCE,
    ),
    Mutation(
        "I22",
        "the era of another metadata topic counts",
        FLOORS,
        "        for m in self._of_topic(_ERA, topic_id):\n",
        "        for m in filter(None, map(_ERA.fullmatch, self._names())):\n",
        f"{_FLOOR}test_another_metadata_topic_has_an_era_of_its_own",
    ),
    switched_off(
        FLOORED_LOG,
        "I22",
        "keys that are read show nothing",
        "        if self.era.era is Era.PLAIN:",
        _KEY,
    ),
    Mutation(
        "I22",
        "keys of a metadata partition that has lost records are not looked at",
        FLOORED_LOG,
        "        if self.era.era is Era.PLAIN:",
        "        if self.era.era is Era.PLAIN and number not in self._fixed:",
        f"{_FLOOR}test_a_key_is_seen_where_what_was_read_is_lost_too",
    ),
    Mutation(
        "I22",
        "a key that names another record shows that brokers write keys",
        ERA,
        "        return key.names(deserialize(value, keyed=True))\n",
        "        return True\n",
        _KEY,
    ),
    Mutation(
        "I22",
        "a real run goes on though it cannot be told whether the topic may be compacted",
        FLOORED_LOG,
        '    except EventLogAccessError as e:\n        if not dry_run:\n            raise\n        logger.warning("whether',
        '    except EventLogAccessError as e:\n        logger.warning("whether',
        f"{_FLOOR}test_where_the_configuration_may_not_be_read_a_run_for_real_ends_and_a_dry_run_says_so",
    ),
    Mutation(
        "I22",
        "a key of another text for the same number is the same key",
        KEYS,
        "    return parsed if bytes(parsed) == key else None\n",
        "    return parsed\n",
        "core/records/test_keys.py::test_what_is_of_neither_design_is_no_key",
    ),
    Mutation(
        "I22",
        "a key names a record of another user partition",
        KEYS,
        "        if (tip.topic_id, tip.topic, tip.partition) != (self.topic_id, self.topic, self.partition):\n",
        "        if (tip.topic_id, tip.topic) != (self.topic_id, self.topic):\n",
        "core/records/test_keys.py::test_a_key_names_what_its_record_names_as_far_as_both_do",
    ),
    Mutation(
        "I22",
        "records of api version 1 show nothing",
        ERA,
        "        return key.names(deserialize(value, keyed=True))\n",
        "        return key.names(deserialize(value))\n",
        f"{_FLOOR}test_a_record_of_version_1_shows_that_brokers_write_keys",
    ),
    Mutation(
        "I22",
        "a record with a key that names another segment is simply good",
        DECODE,
        "        _flag_keyed(columns, keyed, code, errors)\n",
        "",
        f"{_KEYED}test_only_a_key_that_names_what_its_value_names_is_good",
    ),
    Mutation(
        "I22",
        "a key names the state of another record of its segment",
        "core/records/decoding/key_match.py",
        '    for name in ("partition", "state"):\n',
        '    for name in ("partition",):\n',
        f"{_KEYED}test_only_a_key_that_names_what_its_value_names_is_good",
    ),
    Mutation(
        "I22",
        "a topic's name may be of several fields of a key",
        "core/records/decoding/key_match.py",
        '    return pc.if_else(pc.match_substring(topics, ":"), null_of(pa.string()), text)\n',
        "    return text\n",
        f"{_KEYED}test_a_key_that_could_be_cut_in_another_way_is_not_good",
    ),
    Mutation(
        "I22",
        "user partitions that are told apart by one number are the same where that is",
        "core/records/decoding/key_match.py",
        "    of_one &= (high.take(at) == high) & (partition.take(at) == partition)\n",
        "",
        f"{_KEYED}test_ids_that_make_the_same_number_are_told_apart",
    ),
    Mutation(
        "I22",
        "api version 1 is simply accepted: without a key, too",
        SERDE,
        "    newest = len(bodies) - 1 if keyed else _API_VERSION\n",
        "    newest = len(bodies) - 1\n",
        f"{_KEYED}test_a_record_of_version_1_without_a_key_is_not_read",
    ),
    Mutation(
        "I22",
        "in columns api version 1 is accepted without a key, too",
        "core/records/decoding/layout.py",
        "np.flatnonzero(later & keyed.take(rows))",
        "np.flatnonzero(later)",
        f"{_KEYED}test_a_record_of_version_1_without_a_key_is_not_read",
    ),
    Mutation(
        "I22",
        "an update's key may name another end offset than the update",
        KEYS,
        "        return event.end_offset in (self.end_offset, NOT_SAID) and event",
        "        return event",
        f"{_KEYED}test_only_a_key_that_names_what_its_value_names_is_good",
    ),
    Mutation(
        "I22",
        "a null value with any key is no poison pill",
        DECODE,
        "        if key is None:\n            continue\n        if num_partitions",
        "        if num_partitions",
        f"{_KEYED}test_a_null_value_is_forgotten_only_where_its_key_names_a_segment_and_lies_where_it_belongs",
    ),
    Mutation(
        "I22",
        "a key may say a number that Kafka has no room for",
        KEYS,
        "    if any(not -1 << bits - 1 <= n < 1 << bits - 1 for n, bits in zip(numbers, _BITS_OF_NUMBERS, strict=True)):\n"
        "        return None\n",
        "",
        f"{_KEYED}test_a_null_value_whose_key_says_a_number_that_kafka_has_no_room_for_ends_no_reading",
    ),
    Mutation(
        "I22",
        "what is to be forgotten lies anywhere",
        DECODE,
        '            if columns["metadata_partition"][row].as_py() != metadata_partition_for(tip, num_partitions):\n',
        "            if False:\n",
        f"{_KEYED}test_a_null_value_is_forgotten_only_where_its_key_names_a_segment_and_lies_where_it_belongs",
    ),
    Mutation(
        "I22",
        "what is to be forgotten is no poison pill of brokers that do not compact",
        "features/doctor/examine.py",
        "Severity.WARNING if self._compacted else None)",
        "Severity.WARNING)",
        "features/doctor/test_examine.py::"
        "test_what_is_to_be_forgotten_ends_the_consumers_of_brokers_that_do_not_compact",
    ),
    Mutation(
        "I22",
        "where the log cleaner takes steps a missing one of a segment is a writer's fault",
        "features/doctor/examine.py",
        "        compacted = pc.and_(finishing, self._compacted)\n",
        "        compacted = pc.and_(finishing, False)\n",
        _MISSING_STEP,
    ),
    Mutation(
        "I22",
        "where the log cleaner takes steps a missing one of a partition's deletion is a writer's fault",
        "features/doctor/watches.py",
        "            if self._compacted:\n",
        "            if False:\n",
        _MISSING_STEP,
    ),
    Mutation(
        "I22",
        "a step that is missing in a log that is not compacted is no writer's fault",
        "features/doctor/examine.py",
        "        compacted = pc.and_(finishing, self._compacted)\n",
        "        compacted = finishing\n",
        _MISSING_STEP,
    ),
    Mutation(
        "I22",
        "where the log cleaner takes steps a step back is a missing one",
        "features/doctor/examine.py",
        '        finishing = among(rows, "state", (RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,))\n',
        '        finishing = among(rows, "state", RemoteLogSegmentState)\n',
        _MISSING_STEP,
    ),
    Mutation(
        "I22",
        "an update may say another end offset than its add",
        "core/records/fold/segments.py",
        "        differs |= (mine != known) & (mine != NOT_SAID) & (known != NOT_SAID)\n",
        "",
        "core/records/test_columnar_state.py::test_an_update_that_says_another_end_or_epoch_than_its_add_is_told_and_applied",
    ),
    Mutation(
        "I7",
        "an event of api version 1 is written without a key",
        EVENT_ENCODING,
        "        read_back = read_value(reader)\n",
        "        read_back = read_value(reader, keyed=True)\n",
        f"{_GUARD}test_an_event_that_only_version_1_can_say_is_not_written",
    ),
]
