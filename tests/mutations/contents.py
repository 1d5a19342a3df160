# SPDX-License-Identifier: Apache-2.0
"""Mutations that take the contents of a segment for what they are not: whole, its own, and looked at."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

_BATCHES = "core/segments/proof/batches_check.py"
_OFFSETS = "core/segments/proof/offset_entries.py"
_TIMES = "core/segments/proof/time_entries.py"
_TRANSACTIONS = "core/segments/proof/transactions.py"
_PRODUCERS = "core/segments/proof/producers.py"
_LINEAGE = "core/segments/proof/lineage.py"
_WALK = "core/segments/proof/log_walk.py"
_PROVING = "core/segments/proof/proving.py"

_RULES = "features/contents/rules.py"
_LOOKING = "features/contents/looking.py"
_STEPS = "features/contents/steps.py"
_REPORT = "features/contents/report_document.py"
_CRITICALS = "features/contents/criticals.py"

_VERIFIED = "features/copying/test_segment_verification.py::"
_PROOFS = "core/segments/test_segment_proof.py::"
_COMMAND = "cli/test_verify_command.py::"
_OPERATOR = "airflow/operators/test_contents_operator.py::"

CONTENTS = [
    switched_off(
        _BATCHES,
        "contents",
        "a log behind which another is missing passes for whole",
        "        if self._next_offset <= end:",
        f"{_VERIFIED}test_a_lost_segment_file_is_a_gap",
    ),
    Mutation(
        "contents",
        "a log that has lost batches passes for whole",
        _BATCHES,
        "wrong = (base < expected) if self._may_have_gaps else (base != expected)",
        "wrong = base < expected",
        f"{_VERIFIED}test_lost_batches_are_a_gap",
    ),
    Mutation(
        "contents",
        "records of other leader epochs than the lineage's pass for its own",
        _BATCHES,
        "(last != entry) | (known != epoch)",
        "(last != entry)",
        f"{_VERIFIED}test_another_lineage_is_refused",
    ),
    Mutation(
        "contents",
        "below the log start offset any leader epoch passes",
        _BATCHES,
        "below = (epoch < before) | (epoch > known)",
        "below = epoch < 0",
        f"{_PROOFS}test_below_the_log_start_offset_only_the_order_of_epochs_is_known",
    ),
    Mutation(
        "contents",
        "batches whose checksums are wrong pass for right",
        _PROVING,
        "        if not with_right_checksums(data, headers, findings):\n            checks.lose()\n",
        "",
        f"{_PROOFS}test_a_flipped_bit_is_found_in_its_batch",
    ),
    Mutation(
        "contents",
        "an offset index that leads past records passes for right",
        _OFFSETS,
        "above = begins & (base > self._offset[named])",
        "above = begins & (base < 0)",
        f"{_PROOFS}test_an_index_that_says_something_else_is_found",
    ),
    Mutation(
        "contents",
        "an offset index whose entries name no batch's end passes for right",
        _OFFSETS,
        "last_offset[rows] != self._offset[first:end]",
        "last_offset[rows] < 0",
        f"{_PROOFS}test_an_index_that_says_something_else_is_found",
    ),
    switched_off(
        _TIMES,
        "contents",
        "a time index that does not know the highest timestamp passes for right",
        "        if last_ms != highest:",
        f"{_VERIFIED}test_a_cut_is_refused_or_only_makes_a_reader_begin_earlier",
    ),
    switched_off(
        _PRODUCERS,
        "contents",
        "the producer snapshot of a later segment passes for its own",
        "        if known >= next_offset:",
        f"{_PROOFS}test_an_index_that_says_something_else_is_found",
    ),
    Mutation(
        "contents",
        "a producer snapshot that does not know an open transaction passes for right",
        _PRODUCERS,
        "if opened.sure and key not in named",
        "if False",
        f"{_PROOFS}test_an_index_that_says_something_else_is_found",
    ),
    Mutation(
        "contents",
        "a transaction index that has lost an aborted transaction passes for right",
        _TRANSACTIONS,
        "for key, found in left.items() if found.sure",
        "for key, found in left.items() if False",
        f"{_VERIFIED}test_a_transaction_index_that_is_lost_is_refused",
    ),
    switched_off(
        _TRANSACTIONS,
        "contents",
        "a transaction index that begins too late passes for right",
        "    if found.first_offset is not None and found.first_offset != entry.first_offset:",
        f"{_VERIFIED}test_a_transaction_index_that_tells_something_else_is_refused",
    ),
    switched_off(
        _LINEAGE,
        "contents",
        "a checkpoint of another lineage passes for right",
        "    if seen != expected:",
        f"{_PROOFS}test_earlier_epochs_are_compared_with_what_other_segments_say",
    ),
    switched_off(
        _WALK,
        "contents",
        "a whole batch of an older format passes for damage",
        "        if size is None and _is_legacy(rest):",
        f"{_PROOFS}test_an_older_message_format_that_is_whole_is_not_called_damage",
    ),
    Mutation(
        "contents",
        "a batch that claims gigabytes is fetched",
        _WALK,
        "return size <= MOST_BATCH_BYTES and (end is None or at + size <= end)",
        "return True",
        f"{_PROOFS}test_a_batch_that_claims_too_much_is_not_fetched",
    ),
    Mutation(
        "contents",
        "a log that is longer than the metadata say passes for whole",
        _WALK,
        "            stop = self._size + 1\n",
        "            stop = self._size\n",
        f"{_PROOFS}test_metadata_that_say_something_else_are_found",
    ),
    Mutation(
        "contents",
        "an index that is not there passes for right",
        _PROVING,
        "if data is not None or index_type is IndexType.TRANSACTION:",
        "if True:",
        f"{_PROOFS}test_what_is_not_known_is_not_compared_and_told",
    ),
    Mutation(
        "contents",
        "calls damage what was deleted meanwhile",
        _STEPS,
        "still = look.metadata.remote_log_segment_id.id in copied",
        "still = True",
        f"{_COMMAND}test_what_was_deleted_meanwhile_is_no_damage",
    ),
    Mutation(
        "contents",
        "judges what is missing by the log as it was before",
        _STEPS,
        "            self._topic.advance()\n            copied",
        "            copied",
        f"{_COMMAND}test_what_was_deleted_meanwhile_is_no_damage",
    ),
    switched_off(
        _LOOKING,
        "contents",
        "calls damage what one look has shown",
        "        if look.outcome is Outcome.DAMAGED:",
        f"{_COMMAND}test_damage_on_the_way_is_looked_at_twice",
    ),
    Mutation(
        "I21",
        "ends green where the storage refused to hand out segments",
        _RULES,
        "return self in (Outcome.DAMAGED, Outcome.MISSING, Outcome.UNREAD)",
        "return self in (Outcome.DAMAGED, Outcome.MISSING)",
        f"{_COMMAND}test_what_cannot_be_judged_is_counted_and_never_called_right",
    ),
    switched_off(
        _REPORT,
        "I21",
        "ends green where nothing could be looked at",
        "        if self.chosen.segments and not self.looked_at.segments:",
        f"{_COMMAND}test_where_nothing_could_be_looked_at_it_is_red",
    ),
    Mutation(
        "I21",
        "ends green where the log names segments whose contents are not known",
        _STEPS,
        "(unknown > 0, ",
        "(False, ",
        f"{_COMMAND}test_segments_whose_add_is_lost_are_said",
    ),
    Mutation(
        "contents",
        "fetches objects that lie in an archive tier",
        _STEPS,
        "settings.storage_class in ARCHIVE_TIERS",
        "False",
        f"{_COMMAND}test_of_a_connection_in_an_archive_tier_nothing_is_fetched",
    ),
    Mutation(
        "contents",
        "samples look at the same segments again",
        _RULES,
        "(looked_at_ms.get(segment, 0), self._drawn(segment))",
        "(self._drawn(segment))",
        f"{_COMMAND}test_samples_cover_all_in_turn",
    ),
    switched_off(
        "operators/contents.py",
        "contents",
        "a scheduled scrub of contents ends green where a segment is damaged",
        "        if judgement.failing:",
        f"{_OPERATOR}test_damage_fails_the_task_after_the_report",
    ),
    Mutation(
        "I12",
        "who acknowledges a damaged segment acknowledges all of its topic",
        _CRITICALS,
        'f"segment {one.segment_id} of partition {one.partition}, offsets {one.start_offset} to {one.end_offset}"',
        '"a segment"',
        f"{_OPERATOR}test_a_segment_is_acknowledged_by_its_id_and_covers_no_other",
    ),
    Mutation(
        "I12",
        "what the storage refused to hand out can be acknowledged",
        _CRITICALS,
        "acknowledgeable=one.outcome is not Outcome.UNREAD",
        "acknowledgeable=True",
        f"{_OPERATOR}test_what_a_report_does_not_list_and_what_could_not_be_seen_cannot_be_acknowledged",
    ),
    switched_off(
        _CRITICALS,
        "I21",
        "segments beyond those that a report lists count for nothing",
        "    if more := sum(map(report.segments_of, ADVICE)) - len(listed):",
        f"{_OPERATOR}test_what_a_report_does_not_list_and_what_could_not_be_seen_cannot_be_acknowledged",
    ),
]
