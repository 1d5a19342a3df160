# SPDX-License-Identifier: Apache-2.0
"""Mutations of what a catalogue may call copied: nothing is guessed, and what was not seen is said."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

RULES = "features/recovery/rules.py"
LINEAGES = "features/recovery/lineages.py"
CATALOGUING = "features/recovery/cataloguing.py"
PACING = "core/segments/pacing.py"
READS = "features/recovery/segment_reads.py"
STEPS = "features/recovery/steps.py"
DOCUMENT = "core/plans/catalogue_document.py"
INDEXES = "features/recovery/index_reads.py"
EARLIER = "features/recovery/earlier.py"
ROWS = "core/plans/catalogue_rows.py"
MANIFESTS = "features/recovery/manifest_reads.py"
PROVING = "features/recovery/proving.py"
KEPT_SNAPSHOTS = "core/log/kept_snapshots.py"

PROGRESS = "features/recovery/progress.py"
PARTS = "features/recovery/progress_parts.py"
DOCUMENTS = "overview/recovery_documents.py"
SECOND_PLACE = "core/runs/second_place.py"

_CATALOGUE = "features/recovery/test_catalogue.py::"
_PLAIN = "features/recovery/test_plain_layouts.py::"
_SOURCES = "features/recovery/test_earlier_sources.py::"
_LOST = "features/recovery/test_lost_manifests.py::"
_PROVING = "features/recovery/test_proving.py::"
_FILES = "features/recovery/test_catalogue_files.py::"
_RESUMING = "features/recovery/test_resuming.py::"
_DOCUMENTS = "overview/test_recovery_documents.py::"
_KEPT = "core/log/test_kept_snapshots.py::"

RECOVERY = [
    Mutation(
        "never guesses",
        "takes the manifest of another segment for a segment's own",
        RULES,
        "if layout.segment_stem(begun, r.place) == listed.stem), None)",
        "if layout.segment_stem(begun, r.place)), None)",
        _CATALOGUE + "test_a_manifest_that_is_not_the_segments_own_proves_nothing",
    ),
    switched_off(
        RULES,
        "never guesses",
        "calls copied what has other sizes than its manifest names",
        "        if listed.sizes[suffix] != size:",
        _CATALOGUE + "test_objects_of_another_size_than_the_manifest_names_are_damaged",
    ),
    Mutation(
        "never guesses",
        "takes one of several readings of a key for the right one",
        RULES,
        "if len(values) == 1 else None",
        "if values else None",
        _CATALOGUE + "test_the_manifest_tells_the_topic_where_a_prefix_reads_as_its_beginning",
    ),
    Mutation(
        "never guesses",
        "takes one of two copies of the same offsets for the later one",
        LINEAGES,
        "return any(a > b for a, b in pairs) != any(a < b for a, b in pairs)",
        "return True",
        _CATALOGUE + "test_segments_that_share_offsets_are_in_conflict_where_no_epoch_tells",
    ),
    Mutation(
        "never guesses",
        "takes one of several clusters' stamps for that of the segments",
        STEPS,
        "    if len(stamps) == 1 and believed:",
        "    if believed:",
        _FILES + "test_of_two_stamped_clusters_a_person_names_one_and_no_third",
    ),
    switched_off(
        RULES,
        "I21",
        "calls unfinished what a listing that broke off has not shown whole",
        "    if not listed.is_whole:",
        _CATALOGUE + "test_what_lies_below_a_folder_that_was_not_listed_whole_cannot_be_told",
    ),
    Mutation(
        "I21",
        "claims a hole where not all of a user partition was seen",
        CATALOGUING,
        "if hole is not None and whole(hole.topic_id, hole.topic, hole.partition):",
        "if hole is not None:",
        _CATALOGUE + "test_where_not_all_of_a_user_partition_was_seen_no_hole_is_claimed",
    ),
    Mutation(
        "I21",
        "makes a catalogue of a storage that hands out no manifest",
        PACING,
        "if self._in_a_row >= MAX_FAILURES or isinstance",
        "if isinstance",
        _CATALOGUE + "test_a_storage_that_hands_out_nothing_is_no_catalogue",
    ),
    Mutation(
        "I21",
        "stays green though a folder was not listed whole",
        DOCUMENT,
        "        count = len(self.incomplete) + self.incomplete_left_out\n",
        "        count = 0\n",
        _CATALOGUE + "test_what_lies_below_a_folder_that_was_not_listed_whole_cannot_be_told",
    ),
    Mutation(
        "never guesses",
        "believes the first offset of a last batch, which has no checksum",
        INDEXES,
        "self.reaches = last if base == self.last + 1 else self.reaches + 1 + last - base",
        "self.reaches = last",
        _PLAIN + "test_a_gap_before_the_last_batch_is_not_believed",
    ),
    switched_off(
        INDEXES,
        "never guesses",
        "takes the epochs of a checkpoint that the batches do not have",
        "            if self._checkpoint.epoch_for_offset(base) != epoch:",
        _PLAIN + "test_what_does_not_agree_proves_nothing",
    ),
    switched_off(
        INDEXES,
        "never guesses",
        "takes the largest timestamp of a time index that its batch does not have",
        "            if newest_ms != self._newest.timestamp_ms:",
        _PLAIN + "test_what_does_not_agree_proves_nothing",
    ),
    switched_off(
        INDEXES,
        "never guesses",
        "reads the end of a log from where no index has named a batch",
        "        if last != self._awaited:",
        _PLAIN + "test_what_does_not_agree_proves_nothing",
    ),
    Mutation(
        "never guesses",
        "calls the largest timestamp of the last batches the segment's",
        INDEXES,
        "self.is_newest = begin == 0",
        "self.is_newest = True",
        _PLAIN + "test_a_largest_timestamp_that_the_last_batches_do_not_have_is_a_bound",
    ),
    Mutation(
        "never guesses",
        "calls the end of the last batch the end of the segment",
        RULES,
        "tuple(name for name, is_bound in bounds.items() if is_bound)",
        "()",
        _PLAIN + "test_a_segment_is_proved_by_its_last_batches_and_indexes",
    ),
    switched_off(
        RULES,
        "never guesses",
        "calls copied what ends elsewhere than its key says",
        "    if _place_of(listed, begun, layout) is None:",
        _PLAIN + "test_a_key_that_names_the_end_proves_it",
    ),
    switched_off(
        EARLIER,
        "never guesses",
        "calls copied what a snapshot or an audit log calls deleted",
        "        if (who := self._deleted.get(key) or self._gone.get(key[:2])) is not None:",
        _SOURCES + "test_what_an_audit_log_calls_deleted_is_left_out_and_named",
    ),
    switched_off(
        EARLIER,
        "I14",
        "takes what a snapshot that has read less lacks for deleted",
        "    if (after.identity, after.lost) != (before.identity, before.lost):",
        _SOURCES + "test_a_later_snapshot_that_has_read_less_or_elsewhere_tells_of_no_deletion",
    ),
    switched_off(
        EARLIER,
        "never guesses",
        "believes a snapshot that the objects contradict",
        "        if said is not None and (said > had if name in row.bounds else said != had):",
        _SOURCES + "test_objects_that_contradict_a_snapshot_prove_nothing",
    ),
    Mutation(
        "never guesses",
        "takes what is known of an id in another user partition",
        EARLIER,
        'if _key_of(rows[at]) == (one["topic_id"], one["partition"], one["segment_id"]):',
        "if True:",
        _SOURCES + "test_an_id_of_another_user_partition_is_no_other_ones",
    ),
    Mutation(
        "I18",
        "stays green though a snapshot or an audit log could not be read",
        DOCUMENT,
        "unread = [source for source in self.earlier if source.why is not None]",
        "unread: list[EarlierSource] = []",
        _SOURCES + "test_a_source_that_cannot_be_read_is_said_in_red",
    ),
    switched_off(
        STEPS,
        "I18",
        "goes on though a snapshot that was named cannot be read",
        "        if source.why is not None and source.uri in (*named.snapshots, *named.audits):",
        _SOURCES + "test_a_source_that_cannot_be_read_is_said_in_red",
    ),
    switched_off(
        KEPT_SNAPSHOTS,
        "metadata are kept",
        "keeps no earlier snapshot of the metadata topic",
        "        if not times or abs(now_ms - times[-1]) >= DAY_MS:",
        "core/log/test_kept_snapshots.py::test_one_of_a_day_is_kept_and_the_oldest_go",
    ),
    Mutation(
        "metadata are kept",
        "removes the earlier snapshots of another metadata topic",
        KEPT_SNAPSHOTS,
        'if name and name["topic"] == str(self.topic_id))',
        "if name)",
        "core/log/test_kept_snapshots.py::test_those_of_another_topic_and_other_files_stay",
    ),
    switched_off(
        MANIFESTS,
        "never guesses",
        "reads a packed log without its manifest",
        "        if _first_offset(fetch(key, 0, _BASE_OFFSET_BYTES - 1)) != start:",
        _LOST + "test_a_packed_log_cannot_be_read",
    ),
    Mutation(
        "never guesses",
        "believes a log without a manifest that is not right",
        MANIFESTS,
        "if not proof.is_right or seen.last_offset is None:",
        "if seen.last_offset is None:",
        _LOST + "test_a_log_that_is_damaged_proves_nothing",
    ),
    Mutation(
        "never guesses",
        "calls a row proved whose contents are not right",
        PROVING,
        "        if proof.is_right:",
        "        if proof.seen:",
        _PROVING + "test_a_flipped_byte_is_damage",
    ),
    Mutation(
        "never guesses",
        "takes what a manifest says of contents that it contradicts",
        PROVING,
        "    return by_key_alone(row, RowKind.DAMAGED, why)",
        "    return replace(row, kind=RowKind.DAMAGED, why=why)",
        _PROVING + "test_a_flipped_byte_is_damage",
    ),
    Mutation(
        "never guesses",
        "proves a row by the objects of another place",
        PROVING,
        "self._layout.below(prefix).segment_files(",
        "self._layout.segment_files(",
        _PROVING + "test_a_segment_is_proved_by_the_objects_of_its_own_row",
    ),
    Mutation(
        "never guesses",
        "calls a row proved though records may be missing",
        PROVING,
        "Surroundings(may_have_gaps=self._may_have_gaps)",
        "Surroundings(may_have_gaps=True)",
        _PROVING + "test_gaps_are_damage_unless_they_are_allowed",
    ),
    Mutation(
        "I21",
        "calls copied what storage did not hand out to be proved",
        PROVING,
        "            self._failures.met(e)\n            return by_key_alone(row, RowKind.CANNOT_TELL, str(e))",
        "            self._failures.met(e)\n            return row",
        _PROVING + "test_what_storage_does_not_hand_out_cannot_be_told",
    ),
    Mutation(
        "I21",
        "makes a catalogue of a storage that hands out no log to be proved",
        PROVING,
        "            self._failures.met(e)\n",
        "",
        _PROVING + "test_a_storage_that_hands_out_no_log_is_no_catalogue",
    ),
    Mutation(
        "never guesses",
        "calls whole what has a log and no manifest",
        ROWS,
        "in (RowKind.COPIED, RowKind.ENCRYPTED, RowKind.CONFLICT)",
        "in (RowKind.COPIED, RowKind.ENCRYPTED, RowKind.CONFLICT, RowKind.LOG_ONLY)",
        _LOST + "test_a_log_only_is_no_whole_segment",
    ),
    Mutation(
        "I5",
        "reads all of a catalogue again after a kill",
        CATALOGUING,
        "row = before.row or row_of(found, said, self._layout)",
        "row = row_of(found, said, self._layout)",
        _RESUMING + "test_it_goes_on_where_it_was_ended_at_any_request_and_is_the_same_to_the_byte",
    ),
    Mutation(
        "never guesses",
        "takes what was read of an object that has changed since",
        PROGRESS,
        "listed.times.get(suffix))",
        "0)",
        _RESUMING + "test_an_object_that_has_changed_is_read_again_whatever_its_size",
    ),
    Mutation(
        "never guesses",
        "takes what was read of a segment whose keys mean another one now",
        PROGRESS,
        "if one.seen == seen and _is_of(listed, one.row)]",
        "if one.seen == seen]",
        _RESUMING + "test_rows_of_another_segment_under_the_same_keys_are_not_taken",
    ),
    Mutation(
        "never guesses",
        "takes what was read of an object that was changed in the second of its listing",
        PROGRESS,
        "Before(seen if is_settled else None,",
        "Before(seen,",
        _RESUMING + "test_what_was_changed_right_before_the_listing_is_read_again",
    ),
    Mutation(
        "never guesses",
        "takes what could not be seen for what was read",
        PROGRESS,
        "elif before.seen is not None and row.kind in _KEPT:",
        "elif before.seen is not None:",
        _RESUMING + "test_what_could_not_be_seen_is_read_again",
    ),
    Mutation(
        "never guesses",
        "takes the proof of a row for that of another",
        PROGRESS,
        "before.proofs.get(digest_of(row)) if before.proofs else None",
        "next(iter(before.proofs.values()), None)",
        _RESUMING + "test_a_proof_counts_again_only_for_the_row_that_was_proved",
    ),
    switched_off(
        PARTS,
        "never guesses",
        "goes on with what was read of another storage or in another way",
        "    if others:",
        _RESUMING + "test_what_was_asked_for_something_else_is_refused_by_name",
    ),
    switched_off(
        PARTS,
        "never guesses",
        "believes a file of progress that is not as it was written",
        '        if found is None or hashlib.sha256(data).hexdigest() != found["sha256"]:',
        _RESUMING + "test_a_damaged_part_is_not_used_and_said",
    ),
    Mutation(
        "never guesses",
        "believes a file of a survey that is not as it was written",
        DOCUMENTS,
        "    if (len(data), hashlib.sha256(data).hexdigest()) != (file.bytes, file.sha256):",
        "    if len(data) != file.bytes:",
        _DOCUMENTS + "test_an_inventory_that_is_not_as_it_was_written_is_said_in_red",
    ),
    switched_off(
        DOCUMENTS,
        "never guesses",
        "calls copied what was archived to be deleted",
        "        elif is_here and manifest.plan_id is not None:",
        _DOCUMENTS + "test_what_was_archived_to_be_deleted_is_left_out_and_named",
    ),
    Mutation(
        "never guesses",
        "calls copied what a survey has as being deleted",
        DOCUMENTS,
        '                        deleted[tuple(row.values())] = f"{name} has it as {state.name}"',
        "                        pass",
        _DOCUMENTS + "test_what_an_inventory_calls_deleted_is_left_out_and_named",
    ),
    Mutation(
        "never guesses",
        "calls copied what a scrub found finished",
        DOCUMENTS,
        "table.of_class(ScrubClass.FINISHED.value)",
        "table.of_class(ScrubClass.UNKNOWN.value)",
        _DOCUMENTS + "test_what_a_scrub_found_finished_was_deleted",
    ),
    Mutation(
        "metadata are kept",
        "removes the snapshots of another metadata topic from their second place",
        KEPT_SNAPSHOTS,
        'if match and match["topic"] == str(self.topic_id)}',
        "if match}",
        _KEPT + "test_those_of_another_topic_or_cluster_and_other_files_stay_in_the_second_place",
    ),
    Mutation(
        "metadata are kept",
        "lets a work folder that was made anew empty the second place",
        KEPT_SNAPSHOTS,
        "wanted = sorted({*here, *there})[-self.keep :]",
        "wanted = sorted(here)",
        _KEPT + "test_a_work_folder_that_was_made_anew_takes_nothing_but_the_oldest_from_the_second_place",
    ),
    Mutation(
        "I12",
        "stays green though no snapshot can be copied to the second place",
        SECOND_PLACE,
        "return SecondPlace(snapshots.second, str(e))",
        "return SecondPlace(snapshots.second)",
        "airflow/operators/test_second_place.py::test_a_run_whose_second_place_cannot_be_written_cleans_and_is_red",
    ),
]
