# SPDX-License-Identifier: Apache-2.0
"""Reading the remote log: nothing damaged, void or deleted is taken for records."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_LINEAGE = "core/segments/lineage.py"
_SEGMENT_READING = "features/reading/segment_reading.py"
_COMMITTED = "features/reading/committed_reading.py"
_TRANSACTIONS = "features/reading/transactions.py"
_EXTENT = "features/reading/extent.py"
_READER = "features/reading/reader.py"
_SEGMENTS = "core/log/known_segments.py"
_TOPIC_VIEW = "core/world/topic_view.py"
_TRANSACTION_SEARCH = "features/reading/transaction_search.py"
_READ_AHEAD = "features/reading/read_ahead.py"
_INDEX_CACHE = "features/reading/index_cache.py"
_ACCESS = "features/reading/segment_access.py"
_TIMES = "features/reading/timestamp_search.py"
_LINEAGE_TEST = "core/segments/test_lineage.py"
_WORLD_TEST = "features/reading/test_reader_and_the_world.py"
_DAMAGE_TEST = "features/reading/test_damaged_segments.py"
_LOG = f"{_DAMAGE_TEST}::test_a_damaged_log_never_yields_a_wrong_record"
_INDEX = f"{_DAMAGE_TEST}::test_a_damaged_index_never_yields_a_wrong_record"
_PROMISE = "only what a broker wrote is read"
_WHOLE = "nothing is left out in silence"
_AHEAD_TEST = "features/reading/test_read_ahead.py"

READING = [
    Mutation(
        _PROMISE,
        "compares no checksums while it reads",
        _SEGMENT_READING,
        "                headers.verify_checksums(part.data)\n",
        "",
        _LOG,
    ),
    Mutation(
        _PROMISE,
        "believes a first offset that lies behind the segment's end",
        _SEGMENT_READING,
        "        known = headers.last_offset <= metadata.end_offset\n",
        "        known = headers.last_offset <= metadata.end_offset + 2**62\n",
        f"{_DAMAGE_TEST}::test_a_first_offset_behind_the_segment_is_noticed_without_a_checksum",
    ),
    Mutation(
        _PROMISE,
        "believes a first offset that lies before what was read",
        _SEGMENT_READING,
        "            base_offset > last_offset,\n",
        "            base_offset > last_offset - 2**62,\n",
        f"{_DAMAGE_TEST}::test_a_first_offset_that_was_read_before_is_noticed_without_a_checksum",
    ),
    Mutation(
        _PROMISE,
        "believes a batch of another leader epoch",
        _SEGMENT_READING,
        "        same = (epoch == headers.leader_epoch) | (entry < 0)",
        "        same = (epoch == epoch) | (entry < 0)",
        f"{_DAMAGE_TEST}::test_damage_never_leads_a_search_by_time_astray",
    ),
    Mutation(
        _WHOLE,
        "begins where an index leads, with anything there",
        _SEGMENT_READING,
        "        if (first and headers.base_offset[0] > offset) or (headers.last_offset[named] != offset).any():\n",
        "        if False:\n",
        _INDEX,
    ),
    Mutation(
        _WHOLE,
        "takes a last batch that is cut for the end of the segment",
        _SEGMENT_READING,
        "                if consumed != len(data):\n",
        "                if False:\n",
        f"{_DAMAGE_TEST}::test_a_last_batch_that_is_cut_is_noticed",
    ),
    Mutation(
        _PROMISE,
        "believes the transaction index against the end markers of its own range",
        _COMMITTED,
        "        if self._markers.disagreement(headers, aborted.contain(headers), markers) is None:\n",
        "        if True:\n",
        _INDEX,
    ),
    Mutation(
        _PROMISE,
        "believes the transaction index about transactions that end behind the range",
        _READER,
        "        reading.require_decided(end)\n",
        "",
        f"{_DAMAGE_TEST}::test_a_transaction_whose_end_marker_lies_behind_the_range_is_not_taken_for_committed",
    ),
    Mutation(
        _PROMISE,
        "reads records of a transaction that is still open as committed",
        _READER,
        "            end = min(end, last_stable_offset(self._access, extent, extent.end() if last is None else last))\n",
        "            pass\n",
        f"{_WORLD_TEST}::test_committed_records_end_at_the_first_transaction_that_is_open_at_the_end",
    ),
    Mutation(
        _WHOLE,
        "reads nothing in silence where the segment is missing that tells which transactions are open",
        _COMMITTED,
        "    if end > extent.require_offsets().start:\n",
        "    if False:\n",
        f"{_WORLD_TEST}::test_committed_records_need_the_segment_that_tells_which_transactions_are_open",
    ),
    Mutation(
        _PROMISE,
        "trusts the producer snapshot of a history that is void",
        _COMMITTED,
        "        if span.is_whole:\n",
        "        if True:\n",
        f"{_WORLD_TEST}::test_a_part_of_a_segment_that_a_later_leader_wrote_anew_is_not_read",
    ),
    Mutation(
        _PROMISE,
        "takes what was fetched ahead of one segment for a part of another one",
        _READ_AHEAD,
        "        if self._segment == metadata:\n",
        "        if self._segment is not None:\n",
        f"{_AHEAD_TEST}::test_only_the_part_that_is_wanted_is_taken",
    ),
    Mutation(
        _PROMISE,
        "takes what was fetched ahead for another part of its segment",
        _READ_AHEAD,
        "        return part if part.start == start else None\n",
        "        return part\n",
        f"{_AHEAD_TEST}::test_only_the_part_that_is_wanted_is_taken",
    ),
    Mutation(
        _WHOLE,
        "swallows what goes wrong with a part that is fetched ahead",
        "core/base/background.py",
        "        result.set_exception(e)\n",
        "        result.set_result(None)\n",
        f"{_AHEAD_TEST}::test_an_error_is_raised_once_and_only_to_whom_it_concerns",
    ),
    Mutation(
        _WHOLE,
        "ends a file without a row group that could not be written",
        "features/reading/parquet.py",
        "            under_way.result()\n",
        "            under_way.exception()\n",
        "features/reading/test_parquet_files.py"
        "::test_a_row_group_that_cannot_be_written_is_an_error_and_leaves_the_older_file",
    ),
    Mutation(
        _PROMISE,
        "asks no later segment which transactions of a range were aborted",
        _TRANSACTION_SEARCH,
        "            metadata = self._next_with_entries(metadata.end_offset + 1, anew=anew)\n",
        "            metadata = None\n",
        "features/reading/test_transaction_search.py::test_each_segment_is_asked_once_however_many_there_are",
    ),
    Mutation(
        _PROMISE,
        "takes the next segment with aborted transactions for the next one of those behind it, too",
        _TRANSACTION_SEARCH,
        "if searched_from <= offset and (found is None or offset <= found.start_offset):",
        "if searched_from <= offset:",
        "features/reading/test_transaction_search.py::test_each_segment_is_asked_once_however_many_there_are",
    ),
    Mutation(
        _PROMISE,
        "takes an aborted transaction for one of every producer",
        _TRANSACTIONS,
        "(self._producer_id[candidate] == producer_id) & headers.is_transactional",
        "headers.is_transactional",
        "features/reading/test_transactions.py::test_batches_of_aborted_transactions_are_those_that_a_loop_finds",
    ),
    Mutation(
        _PROMISE,
        "reads what a later leader wrote anew from the segment of the earlier one",
        _LINEAGE,
        "        if ours != theirs:\n",
        "        if False:\n",
        f"{_WORLD_TEST}::test_a_part_of_a_segment_that_a_later_leader_wrote_anew_is_not_read",
    ),
    Mutation(
        _PROMISE,
        "takes a segment for one of the lineage though its epochs differ within",
        _LINEAGE,
        "    if compared[1:] != [entry for entry in lineage if begin < entry[0] <= last]:\n",
        "    if False:\n",
        f"{_LINEAGE_TEST}::test_a_segment_belongs_to_a_lineage_whose_leaders_wrote_it",
    ),
    Mutation(
        _PROMISE,
        "takes a segment for one of the lineage that reaches into the next leader's epoch",
        _LINEAGE,
        "    if following is not None and metadata.end_offset >= following:\n",
        "    if following is not None and metadata.end_offset > following:\n",
        f"{_LINEAGE_TEST}::test_a_segment_belongs_to_a_lineage_whose_leaders_wrote_it",
    ),
    Mutation(
        _PROMISE,
        "reads a checkpoint file that was cut in the middle of a number",
        _LINEAGE,
        "        if rest:\n",
        "        if False:\n",
        f"{_LINEAGE_TEST}::test_a_file_that_was_cut_is_never_taken_for_another_lineage",
    ),
    Mutation(
        _WHOLE,
        "takes an epoch's highest remote offset for the log's, though a later leader truncated it",
        _LINEAGE,
        "return (end_offset - 1, answered) if end_offset <= highest else (highest, leader_epoch)",
        "return (highest, leader_epoch)",
        f"{_LINEAGE_TEST}::test_the_highest_remote_offset_is_that_of_the_latest_epoch_that_was_copied",
    ),
    Mutation(
        _PROMISE,
        "believes a checkpoint that is not its segment's",
        _LINEAGE,
        "    if not is_remote_segment_within_leader_epochs(metadata, metadata.end_offset + 1, lineage):\n",
        "    if False:\n",
        f"{_WORLD_TEST}::test_a_checkpoint_of_another_segment_is_an_error",
    ),
    Mutation(
        _WHOLE,
        "passes over records that were deleted while they were read",
        _READER,
        "        if there is None or not follow:\n",
        "        if there is None:\n",
        f"{_WORLD_TEST}::test_a_segment_that_goes_while_it_is_read_ends_the_read_in_words",
    ),
    Mutation(
        _WHOLE,
        "passes over a hole between two segments",
        _READER,
        "        if there is not None and there.start < offset:\n            raise extent.hole_at(offset)\n",
        "        if there is not None and there.start < offset:\n            return there.end\n",
        f"{_WORLD_TEST}::test_a_hole_in_the_remote_log_is_an_error_that_names_the_offset",
    ),
    Mutation(
        _WHOLE,
        "reads from a first offset that is not in the remote log",
        _READER,
        "        if not there.start <= offset <= there.end:\n",
        "        if not there.start <= offset:\n",
        f"{_WORLD_TEST}::test_offsets_that_are_not_remote_are_an_error",
    ),
    Mutation(
        _WHOLE,
        "serves reads from a segment whose deletion was started",
        _SEGMENTS,
        "            if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:\n",
        "            if metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:\n",
        "core/log/test_segments.py::test_a_list_of_segments_answers_as_the_log_it_came_from",
    ),
    Mutation(
        _WHOLE,
        "passes over a record that may name a segment",
        _SEGMENTS,
        "        if mine and record.code not in self._allowed_quarantine:\n",
        "        if False:\n",
        "core/log/test_segments.py::test_a_record_that_may_name_a_segment_and_cannot_be_read_is_an_error",
    ),
    Mutation(
        _WHOLE,
        "passes over a record that may name a segment, where the log was read for the names of topics",
        _SEGMENTS,
        "            if record.metadata_partition in numbers:\n",
        "            if False:\n",
        "core/log/test_topic_histories.py::test_a_doubt_is_a_doubt_whoever_has_read_the_log",
    ),
    Mutation(
        _WHOLE,
        "takes what was read behind a snapshot for all that the log says of a topic",
        _TOPIC_VIEW,
        "        if any(self.resumed_at[number] for number in metadata_partitions):\n",
        "        if False:\n",
        "cli/test_remote_log.py"
        "::test_the_metadata_topic_is_read_once_and_what_an_earlier_run_has_left_is_no_whole_history",
    ),
    Mutation(
        _WHOLE,
        "takes a metadata partition that has lost its beginning for a whole one",
        _SEGMENTS,
        "        self._follower.require_whole(\n",
        "        str(\n",
        "core/log/test_segments.py::test_a_metadata_partition_that_has_lost_its_beginning_is_an_error",
    ),
    Mutation(
        _WHOLE,
        "takes a segment whose add is missing for the end of what was copied",
        _SEGMENTS,
        "    if history.without_add:\n",
        "    if False:\n",
        "features/reading/test_missing_adds.py::test_an_export_is_refused",
    ),
    Mutation(
        _WHOLE,
        "archives what is left of a user partition beside a segment whose add is missing",
        "features/archiving/archiver.py",
        "        if history.without_add:\n",
        "        if False:\n",
        "features/reading/test_missing_adds.py::test_an_archive_is_refused",
    ),
    Mutation(
        _WHOLE,
        "exports and serves what a compacted log still names",
        _SEGMENTS,
        "str(log.era) if or_compacted and log.era.era",
        "str(log.era) if log.era.era",
        "features/reading/test_missing_adds.py"
        "::test_of_a_compacted_log_nobody_exports_archives_or_reads_without_having_said_so",
    ),
    Mutation(
        _WHOLE,
        "reads on where the log turned out to be compacted after it was read as a whole one",
        _SEGMENTS,
        "            or_compacted=self.why_not_whole is not None,\n",
        "            or_compacted=or_compacted,\n",
        "core/log/test_segments.py"
        "::test_a_compacted_log_is_read_where_that_is_asked_for_and_one_that_becomes_it_is_not",
    ),
    Mutation(
        _WHOLE,
        "ends the read of a compacted log as that of a whole one",
        "cli/remote_log.py",
        "    return ExitCode.NEEDS_A_PERSON\n",
        "    return ExitCode.DONE\n",
        "cli/test_remote_log.py::test_a_compacted_log_is_read_for_what_it_names_and_nobody_calls_it_whole",
    ),
    Mutation(
        _PROMISE,
        "keeps an index that names offsets behind its segment",
        _INDEX_CACHE,
        "    if offset > metadata.end_offset:\n",
        "    if False:\n",
        "features/reading/test_index_cache.py::test_an_index_that_cannot_be_of_its_segment_is_an_error",
    ),
    Mutation(
        _WHOLE,
        "takes a missing offset index for an empty one",
        _INDEX_CACHE,
        "            if index_type is not IndexType.TRANSACTION:\n",
        "            if False:\n",
        "features/reading/test_index_cache.py::test_only_a_transaction_index_may_be_missing",
    ),
    Mutation(
        _WHOLE,
        "believes a time index that the log does not bear out",
        _TIMES,
        "                if checked is not None:\n",
        "                if False:\n",
        f"{_DAMAGE_TEST}::test_a_time_index_that_leads_behind_the_record_is_left_out",
    ),
]
