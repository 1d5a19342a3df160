# SPDX-License-Identifier: Apache-2.0
"""Mutations that delete what is not archived, or archive what does not compare."""

from __future__ import annotations

from tests.mutations.mutation import ELIGIBILITY, Mutation, switched_off

ARCHIVING_FILE = "features/archiving/archiver.py"
GUARD = "features/archiving/archive_guard.py"
PLAN_ARCHIVE = "core/plans/plan_archive.py"
SESSION = "features/archiving/steps.py"
LOG_CHECK = "features/archiving/archive/segments.py"
SEGMENTS = "features/archiving/archive/segments.py"
RESTORING = "features/archiving/restore_steps.py"
RESTORE_EFFECTS = "features/archiving/restore_effects.py"
FILES = "features/archiving/archive/files.py"
MANIFESTS = "features/archiving/archive/manifests.py"
RECORDS = "features/archiving/archive/records.py"
READING = "features/archiving/archive/reading.py"
RESTORE = "restore"
ARCHIVE = "archive before deletion"
TESTS = "features/archiving/test_archiving.py"
DOCUMENTS = "features/archiving/archive_documents.py"
RUN_DOCUMENTS = "features/archiving/archive/documents.py"
ARCHIVE_WHOLE = "features/archiving/archive_whole.py"
WHOLE = "features/archiving/test_whole_archives.py"
HALF = f"{WHOLE}::test_half_an_archive_is_refused"
SPOILT = f"{TESTS}::test_an_archive_that_is_changed_afterwards_deletes_nothing_of_it"

ARCHIVING = [
    Mutation(
        "archive",
        "lets an encrypted segment go that lacks an object in its archive",
        "features/archiving/archive_manifest.py",
        "(bool(self.keys) and not self.missing)",
        "bool(self.keys)",
        "features/archiving/test_encrypted_archives.py::test_what_an_interrupted_run_has_left_of_one_is_kept_and_goes",
    ),
    Mutation(
        "archive",
        "archives an encrypted segment unasked",
        "features/archiving/archive/segments.py",
        "            if self._encrypted_as_is:\n",
        "            if True:\n",
        "features/archiving/test_encrypted_archives.py::"
        "test_an_encrypted_topic_is_refused_unless_its_objects_may_be_kept_as_they_are",
    ),
    Mutation(
        "archive",
        "calls an encrypted copy whole that lacks an object in storage",
        "features/archiving/archive/segments.py",
        "        if missing and segment.must_be_whole:\n            raise self._lacking(metadata, missing)\n",
        "        if False:\n            raise self._lacking(metadata, missing)\n",
        "features/archiving/test_encrypted_archives.py::test_an_encrypted_copy_that_lacks_an_object_keeps_its_topic",
    ),
    Mutation(
        ARCHIVE,
        "a topic that was refused by the archive is cleaned",
        ELIGIBILITY,
        " or self.archive.refusal_of(tip)\n",
        "\n",
        f"{TESTS}::test_where_one_partition_is_damaged_the_others_of_its_topic_stay_too",
    ),
    switched_off(
        ELIGIBILITY,
        ARCHIVE,
        "segments outside of the archive are deleted",
        "    if not context.archive.holds(metadata):",
        f"{TESTS}::test_segments_that_the_archive_does_not_hold_stay",
    ),
    Mutation(
        ARCHIVE,
        "an archive of another plan counts",
        GUARD,
        "        archive.check_plan(summary)\n",
        "",
        f"{TESTS}::test_an_archive_of_another_plan_deletes_nothing",
    ),
    switched_off(
        GUARD,
        ARCHIVE,
        "a manifest of another plan counts",
        "        if says != named:",
        f"{TESTS}::test_a_manifest_of_an_earlier_plan_is_none_even_where_it_is_named",
    ),
    Mutation(
        ARCHIVE,
        "files of the archive are not looked for before the deletion",
        GUARD,
        "            require_files(found.folder, manifest)\n",
        "",
        SPOILT,
    ),
    switched_off(
        GUARD,
        ARCHIVE,
        "an archive that goes while it is deleted by is not missed",
        "        if found is not None and self._monotonic() - self._looked_ms[tip] >= LOOK_AGE_MS:",
        f"{TESTS}::test_an_archive_that_goes_while_it_is_deleted_by_ends_the_deletion",
    ),
    Mutation(
        ARCHIVE,
        "a copy that was archived in part, and finished afterwards, counts as held",
        GUARD,
        "archived == _unchanging(metadata) and (whole or not needed)",
        "archived == _unchanging(metadata)",
        f"{TESTS}::test_a_copy_that_was_finished_after_it_was_archived_in_part_is_not_held",
    ),
    Mutation(
        ARCHIVE,
        "a manifest that was changed counts",
        MANIFESTS,
        "    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:",
        "    if False:",
        SPOILT,
    ),
    Mutation(
        ARCHIVE,
        "a run that must archive and has not goes on",
        SESSION,
        "    if archive is None:\n        raise ArchiveError(",
        "    if archive is None:\n        return NO_ARCHIVE\n        raise ArchiveError(",
        f"{TESTS}::test_a_run_that_must_archive_and_has_not_deletes_nothing",
    ),
    Mutation(
        ARCHIVE,
        "the connection's demand for an archive is not heard",
        SESSION,
        "    return archive_first or settings.archive_before_deletion",
        "    return archive_first",
        f"{TESTS}::test_a_run_that_must_archive_and_has_not_deletes_nothing",
    ),
    switched_off(
        LOG_CHECK,
        ARCHIVE,
        "the size of a log is not compared",
        "        if size != expected:",
        f"{TESTS}::test_a_log_of_another_size_keeps_its_topic",
    ),
    switched_off(
        LOG_CHECK,
        ARCHIVE,
        "the offsets of a log are not compared",
        "        if first < self._next_offset or last > self._metadata.end_offset:",
        f"{TESTS}::test_a_log_of_other_offsets_keeps_its_topic",
    ),
    Mutation(
        ARCHIVE,
        "a finished copy may lack files",
        SEGMENTS,
        "            raise self._lacking(segment.metadata, missing)\n",
        "            pass\n",
        f"{TESTS}::test_a_finished_copy_that_lacks_a_file_keeps_its_topic",
    ),
    switched_off(
        FILES,
        ARCHIVE,
        "what is written is not read back",
        "    if kept != given:",
        f"{TESTS}::test_a_file_that_does_not_read_back_keeps_its_topic",
    ),
    Mutation(
        ARCHIVE,
        "records are not read back",
        RECORDS,
        "    if (found := _content_of(folder_uri, files)) != written:",
        "    if (found := written) != written:",
        f"{TESTS}::test_records_that_do_not_read_back_keep_their_topic",
    ),
    Mutation(
        ARCHIVE,
        "a later try takes the place of an earlier one in the archive",
        MANIFESTS,
        '    create_file(f"{folder_uri}/{name}", [data])\n',
        "    from airflow_provider_rlmm.core.base.file_systems import replace_file\n\n"
        '    name = manifest_file(manifest.name, "0")\n'
        '    replace_file(f"{folder_uri}/{name}", [data])\n',
        f"{TESTS}::test_a_try_after_the_deletion_takes_nothing_out_of_the_archive",
    ),
    Mutation(
        ARCHIVE,
        "the kill switch does not end an archive",
        ARCHIVING_FILE,
        "                require_not_stopped(self.should_stop())\n",
        "",
        f"{TESTS}::test_the_kill_switch_ends_the_step_before_the_next_user_partition",
    ),
    Mutation(
        ARCHIVE,
        "a broken look at the archive is forgotten by the next good one",
        GUARD,
        "        return manifest.segments\n",
        "        self._broken.pop(tip, None)\n        return manifest.segments\n",
        f"{TESTS}::test_an_archive_that_was_not_whole_for_a_while_deletes_nothing_in_that_task",
    ),
    Mutation(
        ARCHIVE,
        "a segment is held that has the size of the archived one",
        GUARD,
        "    return metadata.start_offset, metadata.end_offset, metadata.segment_size_in_bytes\n",
        "    return 0, 0, metadata.segment_size_in_bytes\n",
        f"{TESTS}::test_a_segment_that_the_log_says_otherwise_now_is_not_held",
    ),
    Mutation(
        ARCHIVE,
        "what is archived is deleted though no document names it",
        GUARD,
        "            self._documents.require(found)\n",
        "",
        SPOILT,
    ),
    Mutation(
        ARCHIVE,
        "a document that goes while it is deleted by is not missed",
        DOCUMENTS,
        "        if looked is None or now_ms - looked[0] >= self._age_ms:",
        "        if looked is None:",
        f"{TESTS}::test_an_archive_that_goes_while_it_is_deleted_by_ends_the_deletion",
    ),
    Mutation(
        ARCHIVE,
        "a document names only what its run has archived",
        DOCUMENTS,
        "tuple(NamedPartition(number, tuple(named[number])) for number in sorted(named))",
        "()",
        f"{WHOLE}::test_part_of_a_plan_is_no_whole_archive_until_the_rest_is_archived",
    ),
    Mutation(
        ARCHIVE,
        "a try that is stopped names nothing of what it has archived",
        ARCHIVING_FILE,
        "            with suppress(ArchiveError):\n                self._leave_documents(work)\n            raise\n",
        "            raise\n",
        f"{WHOLE}::test_a_try_that_is_stopped_names_what_it_has_archived",
    ),
    Mutation(
        ARCHIVE,
        "a run names the manifests that another one has left",
        RUN_DOCUMENTS,
        '                if not name.startswith(f"{run_name}.") or (int(partition), path) in known:\n'
        "                    continue\n"
        "                named, manifest = named_manifest(folder, path)\n"
        "                if (manifest.name, manifest.plan_id) == (run_name, plan_id):",
        "                if (int(partition), path) in known:\n"
        "                    continue\n"
        "                named, manifest = named_manifest(folder, path)\n"
        "                if True:",
        f"{WHOLE}::test_what_a_killed_try_has_left_is_named_by_the_next_try_of_the_run_and_by_no_other",
    ),
    Mutation(
        RESTORE,
        "an archive that is not whole is restored in green",
        RESTORING,
        "    if not missing or overrides:",
        "    if True:",
        HALF,
    ),
    Mutation(
        RESTORE,
        "half an archive that a person takes needs no person",
        RESTORING,
        "        return bool(self.problems)\n",
        "        return False\n",
        f"{WHOLE}::test_half_an_archive_that_somebody_takes_needs_a_person",
    ),
    Mutation(
        RESTORE,
        "a hole between archived offsets is passed over",
        RESTORING,
        "[*source.missing, *holes(measured)]",
        "[*source.missing]",
        f"{WHOLE}::test_a_hole_is_refused_and_a_first_offset_above_0_is_said",
    ),
    Mutation(
        RESTORE,
        "an archive without a document is whole",
        ARCHIVE_WHOLE,
        "        return [NO_DOCUMENT]\n",
        "        return []\n",
        HALF,
    ),
    Mutation(
        RESTORE,
        "a manifest that is not there is not missed",
        ARCHIVE_WHOLE,
        "sorted(named.keys() - there)",
        "()",
        HALF,
    ),
    Mutation(
        RESTORE,
        "a manifest that no run has named is taken",
        ARCHIVE_WHOLE,
        "sorted(there - named.keys())",
        "()",
        HALF,
    ),
    Mutation(
        RESTORE,
        "segments that the log named are not missed",
        ARCHIVE_WHOLE,
        "        if lost:\n",
        "        if False:\n",
        HALF,
    ),
    Mutation(
        RESTORE,
        "a document that an earlier run had left is not missed",
        ARCHIVE_WHOLE,
        "sorted(known.keys() - runs.keys())",
        "()",
        f"{WHOLE}::test_a_run_and_all_that_it_archived_are_missed_by_a_later_document",
    ),
    Mutation(
        RESTORE,
        "a name of an archive walks a path",
        "features/archiving/archive_run.py",
        "    if not _PATH.fullmatch(name) or",
        "    if",
        f"{WHOLE}::test_a_name_that_walks_however_it_is_spelled_is_refused",
    ),
    Mutation(
        RESTORE,
        "a damaged archive is restored",
        "features/archiving/restore_archive.py",
        "            log.verify()\n",
        "            pass\n",
        "features/archiving/test_restoring_session.py::test_a_damaged_archive_is_not_restored",
    ),
    switched_off(
        READING,
        RESTORE,
        "a file that was changed is taken for the archived one",
        "            if found != file:",
        "features/archiving/test_archive_reading.py::test_a_file_that_was_changed_is_named",
    ),
    switched_off(
        RESTORING,
        RESTORE,
        "a topic that cannot hold the records is written to",
        "        if found := obstacles(look, measured, system_clock(), resumed=begun is not None):",
        "features/archiving/test_restoring_session.py::test_a_topic_that_cannot_hold_them_is_not_written_to",
    ),
    switched_off(
        RESTORE_EFFECTS,
        RESTORE,
        "what was restored is not compared",
        "        if (digest.count, digest.hexdigest()) != (expected.count, expected.written_sha256):",
        "features/archiving/test_restoring_session.py::test_a_record_that_differs_when_read_back_is_noticed",
    ),
    switched_off(
        RESTORE_EFFECTS,
        RESTORE,
        "another writer is not noticed",
        "        if (after.topic_id, after.ends) != (look.topic_id, ends):",
        "features/archiving/test_restoring_session.py::test_another_writer_and_another_topic_of_the_name_are_noticed",
    ),
    switched_off(
        RESTORING,
        RESTORE,
        "a connection that allows no writes restores",
        "    if not settings.allow_writes:",
        "features/archiving/test_restoring_session.py::test_a_connection_that_does_not_allow_writes_restores_nothing",
    ),
    Mutation(
        "kill switch",
        "restores though the switch is on",
        RESTORING,
        "    require_not_stopped(access.read_stop())\n",
        "",
        "features/archiving/test_restoring_session.py::test_the_kill_switch_stops_a_restore",
    ),
    switched_off(
        RESTORING,
        "dry run",
        "a dry run of a restore writes",
        "    if dry_run:",
        "features/archiving/test_restoring_session.py::test_a_dry_run_has_nothing_that_writes",
    ),
]
