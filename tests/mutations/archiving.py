# SPDX-License-Identifier: Apache-2.0
"""Mutations that delete what is not archived, or archive what does not compare."""

from __future__ import annotations

from tests.mutations.mutation import ELIGIBILITY, Mutation, switched_off

ARCHIVING_FILE = "lifecycle/archiving.py"
GUARD = "lifecycle/archive_guard.py"
PLAN_ARCHIVE = "policy/plan_archive.py"
SESSION = "session/archiving.py"
LOG_CHECK = "remote_log/archive/log_check.py"
SEGMENTS = "remote_log/archive/segments.py"
RESTORING = "session/restoring.py"
FILES = "remote_log/archive/files.py"
MANIFESTS = "remote_log/archive/manifests.py"
RECORDS = "remote_log/archive/records.py"
READING = "remote_log/archive/reading.py"
RESTORE = "restore"
ARCHIVE = "archive before deletion"
TESTS = "lifecycle/test_archiving.py"
SPOILT = f"{TESTS}::test_an_archive_that_is_changed_afterwards_deletes_nothing_of_it"

ARCHIVING = [
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
        "        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:",
        "        if False:",
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
    switched_off(
        SEGMENTS,
        ARCHIVE,
        "a finished copy may lack files",
        "        if missing and segment.must_be_whole:",
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
        "    from airflow_provider_rlmm.file_systems import replace_file\n\n"
        '    name = manifest_file(manifest.name, "0")\n'
        '    replace_file(f"{folder_uri}/{name}", [data])\n',
        f"{TESTS}::test_a_try_after_the_deletion_takes_nothing_out_of_the_archive",
    ),
    switched_off(
        ARCHIVING_FILE,
        ARCHIVE,
        "the kill switch does not end an archive",
        "                if (why := self.should_stop()) is not None:",
        f"{TESTS}::test_the_kill_switch_ends_the_step_before_the_next_user_partition",
    ),
    Mutation(
        RESTORE,
        "a damaged archive is restored",
        RESTORING,
        "            log.verify()\n",
        "            pass\n",
        "remote_log/test_restoring_session.py::test_a_damaged_archive_is_not_restored",
    ),
    switched_off(
        READING,
        RESTORE,
        "a file that was changed is taken for the archived one",
        "            if found != file:",
        "remote_log/test_archive_reading.py::test_a_file_that_was_changed_is_named",
    ),
    switched_off(
        RESTORING,
        RESTORE,
        "a topic that cannot hold the records is written to",
        "        if found := obstacles(look, measured, system_clock()):",
        "remote_log/test_restoring_session.py::test_a_topic_that_cannot_hold_them_is_not_written_to",
    ),
    switched_off(
        RESTORING,
        RESTORE,
        "what was restored is not compared",
        "        if (digest.count, digest.hexdigest()) != (expected.count, expected.content_sha256):",
        "remote_log/test_restoring_session.py::test_a_record_that_differs_when_read_back_is_noticed",
    ),
    switched_off(
        RESTORING,
        RESTORE,
        "another writer is not noticed",
        "    if (after.topic_id, after.ends) != (look.topic_id, ends):",
        "remote_log/test_restoring_session.py::test_another_writer_and_another_topic_of_the_name_are_noticed",
    ),
    switched_off(
        RESTORING,
        RESTORE,
        "a connection that allows no writes restores",
        "    if not settings.allow_writes:",
        "remote_log/test_restoring_session.py::test_a_connection_that_does_not_allow_writes_restores_nothing",
    ),
]
