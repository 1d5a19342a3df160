# SPDX-License-Identifier: Apache-2.0
"""Mutations that pass half of a topic off as the whole, copy from a wrong disk, or send secrets along."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

READ_RANGE = "core/segments/read_range.py"
REMOTE_COPIES = "features/reading/remote_copies.py"
READING = "features/reading/steps.py"
COPYING = "features/copying/steps.py"
COPY_EFFECTS = "features/copying/copy_effects.py"
EXPORTING = "features/reading/export_steps.py"

_RANGE = "core/segments/test_read_range.py::"
_MISSING = f"{_RANGE}test_what_is_missing_is_refused_unless_somebody_allows_it"
_READ = "airflow/operators/test_remote_log_operators.py::"
_COPY = "airflow/operators/test_copying_operator.py::"
_COPY_STEPS = "features/copying/test_copy_steps.py::"
_EXPORT = "features/reading/test_exporting.py::"


def _read(file: str, name: str, condition: str, test: str) -> Mutation:
    return switched_off(file, "remote log", name, condition, test)


REMOTE_LOG = [
    _read(READ_RANGE, "records that are gone are left out", "    if first < remote.start:", _MISSING),
    _read(READ_RANGE, "records that are not copied are left out", "    if max(first, last) > remote.end:", _MISSING),
    _read(
        READING,
        "a range by time ends where remote storage does",
        "            if behind is None and not allow_incomplete:",
        f"{_READ}test_what_is_not_there_fails_before_a_file_is_written",
    ),
    _read(
        READING,
        "any of the topics of one name is read",
        "    if len(ids) > 1:",
        f"{_READ}test_a_name_that_was_used_twice_names_nothing",
    ),
    _read(
        REMOTE_COPIES,
        "a hole below the time is overlooked",
        "        if start > reached:",
        f"{_READ}test_a_hole_below_the_time_is_waited_for",
    ),
    _read(
        REMOTE_COPIES,
        "what another leader wrote counts as copied",
        "    if ranges and max(end for _, end in ranges) > offsets.log_end_offset:",
        f"{_READ}test_what_is_not_copied_is_waited_for",
    ),
    _read(
        "features/reading/remote_copies_steps.py",
        "a time that is still to come counts as reached",
        "    if session.clock() < up_to_ms:",
        f"{_READ}test_a_time_that_is_still_to_come_is_waited_for",
    ),
    _read(
        COPYING,
        "the disk of another cluster is copied",
        "    if disk.cluster_id != session.cluster_id:",
        f"{_COPY_STEPS}test_a_disk_of_another_cluster_is_refused",
    ),
    Mutation(
        "remote log",
        "a dry run is green where the copy needs a person",
        "features/copying/topic_copy.py",
        "        return self.stopped_by is not None if self.report is None else self.report.needs_person\n",
        "        return self.refused is not None if self.report is None else self.report.needs_person\n",
        f"{_COPY}test_what_is_left_to_expire_needs_a_person_and_everybody_tells_the_same",
    ),
    Mutation(
        "remote log",
        "a disk is taken apart for a layout that cannot take it",
        COPYING,
        "            storage.learn_to_copy(newest_copies(replay))\n",
        "            pass\n",
        f"{_COPY}test_a_layout_that_cannot_be_copied_into_is_refused_by_the_first_look",
    ),
    Mutation(
        "remote log",
        "segments are copied into an old copy of the brokers' storage",
        COPY_EFFECTS,
        "        raise error\n",
        "        return str(error)\n",
        f"{_COPY_STEPS}test_nothing_is_copied_into_an_old_copy_of_the_brokers_storage",
    ),
    Mutation(
        "remote log",
        "a disk is copied under the kill switch",
        COPYING,
        "    session.require_running(dry_run=dry_run)\n",
        "",
        f"{_COPY_STEPS}test_nothing_is_copied_under_the_kill_switch",
    ),
    Mutation(
        "remote log",
        "a dry run copies",
        COPYING,
        "    if dry_run:\n",
        "    if False:\n",
        f"{_COPY_STEPS}test_a_dry_run_says_what_would_go_and_writes_nothing",
    ),
    Mutation(
        "remote log",
        "a disk is taken apart though the connection allows no copies",
        COPYING,
        '    writer.require_copying(f"copy segments of {topic}")\n',
        "",
        f"{_COPY_STEPS}test_nothing_is_copied_where_the_settings_do_not_allow_it",
    ),
    Mutation(
        "remote log",
        "the command copies without being told to",
        "cli/copying.py",
        "            dry_run=not execute,",
        "            dry_run=False,",
        f"{_COPY}test_the_command_copies_only_when_it_is_told_to",
    ),
    _read(
        EXPORTING,
        "an export goes into a folder of another one",
        "        if strangers := [name for name in names if name not in own]:",
        f"{_EXPORT}test_a_folder_with_other_files_is_refused",
    ),
    _read(
        EXPORTING,
        "an export overwrites files of which nothing says whose they are",
        "        if names and BEGUN_DOCUMENT not in names:",
        f"{_EXPORT}test_files_of_which_nothing_says_whose_they_are_are_not_overwritten",
    ),
    Mutation(
        "remote log",
        "an export overwrites the export of another topic",
        EXPORTING,
        '            create_file(f"{self.uri}/{BEGUN_DOCUMENT}", [self._identity()])\n',
        '            replace_file(f"{self.uri}/{BEGUN_DOCUMENT}", [self._identity()])\n',
        f"{_EXPORT}test_an_export_of_another_topic_with_the_same_offsets_is_not_overwritten",
    ),
    Mutation(
        "remote log",
        "an export that is begun again looks as if it had ended",
        EXPORTING,
        '        remove_file(f"{self.uri}/{EXPORT_DOCUMENT}")\n',
        "",
        f"{_EXPORT}test_an_export_that_is_begun_again_has_not_ended",
    ),
    _read(
        "features/reading/cutting.py",
        "secrets of the store are sent to executors",
        "    if secret := sorted(name for name, value in options.items() if not is_public_option(name, value)):",
        f"{_EXPORT}test_secrets_of_the_store_are_sent_nowhere",
    ),
    Mutation(
        "remote log",
        "an export or a DataFrame ends without a word where remote storage does",
        "features/reading/cutting.py",
        "self.isolation, allow_incomplete=self.allow_incomplete)",
        "self.isolation, allow_incomplete=True)",
        f"{_EXPORT}test_a_range_that_is_not_all_there_is_cut_only_where_that_is_asked_for",
    ),
    Mutation(
        "remote log",
        "a DataFrame is made for executors that cannot read it",
        "data_frames.py",
        "    require_executors(spark)\n",
        "",
        "test_data_frames.py::test_executors_that_cannot_read_are_refused_before_a_broker_is_asked",
    ),
    _read(
        "data_frames.py",
        "a DataFrame reads the same offsets of every partition",
        "    if (start_offset, end_offset) != (None, None) and (partitions is None or len({*partitions}) != 1):",
        "test_data_frames.py::test_what_is_not_understood_is_refused",
    ),
]
