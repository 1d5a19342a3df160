# SPDX-License-Identifier: Apache-2.0
"""Mutations that let the Spark job go on from what it must not, or forget what it knew."""

from __future__ import annotations

from tests.mutations.mutation import STRICT_JSON, Mutation, switched_off

FILES = "core/generations/files.py"
FOLDING = "core/generations/folding.py"
TASK = "features/retention/spark/executor/metadata_partition.py"
FRAME_ROWS = "features/retention/spark/executor/frame_rows.py"
JUDGING = "features/retention/spark/executor/judging.py"
ROWS = "features/retention/spark/executor/rows.py"
MANIFEST = "core/generations/manifest.py"
STORE = "core/generations/store.py"

_READING_ON = "core/generations/test_reading_on.py"
_FRAME_ROWS = "features/retention/test_frame_rows.py"
_GENERATION = "core/generations/test_manifest.py"

GENERATIONS = [
    switched_off(
        FOLDING,
        "generations",
        "goes on with a log that lacks records which it had",
        "        if self._known:",
        f"{_READING_ON}::test_a_log_with_other_records_is_not_gone_on_with",
    ),
    Mutation(
        "generations",
        "goes on with a log that holds other records than before",
        FOLDING,
        "self._known.popleft() != anchor",
        "not self._known.popleft()",
        f"{_READING_ON}::test_a_log_with_other_records_is_not_gone_on_with",
    ),
    Mutation(
        "generations",
        "applies once more what it has read before",
        FOLDING,
        "            records = records.slice(read_before)\n",
        "",
        f"{_READING_ON}::test_reading_on_comes_to_what_reading_all_comes_to",
    ),
    Mutation(
        "generations",
        "forgets the records that cannot be applied",
        FOLDING,
        "            self._quarantined = [found]",
        "            self._quarantined = [found.slice(0, 0)]",
        f"{_READING_ON}::test_what_cannot_be_applied_is_remembered",
    ),
    Mutation(
        "generations",
        "goes on from another state than its manifest names",
        FILES,
        " or hashlib.sha256(data).hexdigest() != file.sha256",
        "",
        f"{_GENERATION}::test_a_file_is_read_only_as_it_was_written",
    ),
    switched_off(
        FILES,
        "generations",
        "goes on from columns of another state than its manifest names",
        "    if (reading.size, reading.sha256.hexdigest()) != (file.bytes, file.sha256):",
        f"{_READING_ON}::test_a_state_that_is_not_the_one_of_the_manifest_is_refused",
    ),
    Mutation(
        "generations",
        "writes on where it must not go on",
        TASK,
        "        if self._folding is None or self._refused is not None:",
        "        if self._folding is None:",
        f"{_READING_ON}::test_a_log_with_other_records_is_not_gone_on_with",
    ),
    Mutation(
        "generations",
        "goes on from a state of another fold",
        MANIFEST,
        '            ("fold version", self.fold_version, other.fold_version),\n',
        "",
        f"{_GENERATION}::test_what_a_generation_does_not_fit",
    ),
    Mutation(
        "generations",
        "goes on with another topic of the same name",
        MANIFEST,
        '            ("topic id", self.topic_id, other.topic_id),\n',
        "",
        f"{_GENERATION}::test_what_a_generation_does_not_fit",
    ),
    switched_off(
        MANIFEST,
        "generations",
        "goes on with a log that has lost its end",
        "            if end[number] < part.next_offset:",
        f"{_GENERATION}::test_what_a_generation_does_not_fit",
    ),
    switched_off(
        MANIFEST,
        "generations",
        "goes on with a log that has lost what it was known by",
        "            if begin[number] > part.start:",
        f"{_GENERATION}::test_what_a_generation_does_not_fit",
    ),
    switched_off(
        STRICT_JSON,
        "generations",
        "believes a manifest with other bytes",
        "    if given != checksum(document):",
        f"{_GENERATION}::test_a_manifest_with_another_byte_is_refused",
    ),
    Mutation(
        "generations",
        "reads files outside of a generation's folder",
        MANIFEST,
        "found is None or found[2] != str(metadata_partition) or int(found[1]) > generation",
        "False",
        f"{_GENERATION}::test_a_manifest_that_contradicts_itself_is_not_written_or_read",
    ),
    Mutation(
        "generations",
        "takes what a killed run left for a generation",
        STORE,
        " and found[2] == MANIFEST_NAME}",
        "}",
        f"{_GENERATION}::test_only_generations_with_a_manifest_are_there",
    ),
    Mutation(
        "generations",
        "removes the generation that somebody may still read",
        STORE,
        "int(found[1]) <= newest - KEPT:",
        "int(found[1]) < newest:",
        f"{_GENERATION}::test_the_last_two_generations_stay",
    ),
    Mutation(
        "generations",
        "says of a segment that is not certain that it would go",
        JUDGING,
        "    codes[segments.uncertain] = NONE\n",
        "",
        "features/retention/test_what_if.py::test_a_segment_that_is_not_certain_never_goes",
    ),
    Mutation(
        "memory",
        "makes all rows of a metadata partition at once",
        ROWS,
        "ROWS_AT_ONCE = 16_384",
        "ROWS_AT_ONCE = 1 << 30",
        "features/retention/test_memory.py::test_a_task_takes_little_beside_its_state",
    ),
    Mutation(
        "memory",
        "holds the states of two metadata partitions",
        TASK,
        "                task = None\n",
        "",
        "features/retention/test_metadata_partition.py::test_the_state_of_one_metadata_partition_is_gone_before_the_next_one_is_read",
    ),
    Mutation(
        "generations",
        "tries settings of a topic that nobody has",
        "features/retention/spark/what_if.py",
        "        if not any(fnmatchcase(topic.name, self.topics) for topic in state.topics):",
        "        if False:",
        "features/retention/test_what_if.py::test_settings_of_no_topic_are_refused",
    ),
    Mutation(
        "generations",
        "starts Spark for settings of a topic that nobody has",
        "operators/retention.py",
        "            Scenario.parse(settings).applied(state)\n",
        "            Scenario.parse(settings)\n",
        "airflow/operators/test_spark_what_if.py::test_other_settings_are_told_to_the_job_and_what_it_says_of_them_is_in_the_xcom",
    ),
    Mutation(
        "generations",
        "says of a segment without a time of a record that it is old",
        "features/retention/spark/executor/ages.py",
        "np.where(newest < 0, _UNKNOWN, ",
        "np.where(newest < -1, _UNKNOWN, ",
        "features/retention/test_record_ages.py::test_each_segment_is_in_the_range_of_its_newest_record",
    ),
    Mutation(
        "generations",
        "says nothing of segments that no count of other settings has",
        "cli/what_if.py",
        "    if uncertain:\n",
        "    if False:\n",
        "cli/test_what_if.py::test_it_counts_as_the_plain_rules_do",
    ),
    switched_off(
        FRAME_ROWS,
        "generations",
        "gives rows of other columns to people's own jobs",
        "    if not rows.schema.equals(SEGMENTS):",
        f"{_FRAME_ROWS}::test_a_file_of_other_columns_or_no_parquet_gives_no_rows",
    ),
    Mutation(
        "generations",
        "mixes uncertain segments and bad records with the others",
        FRAME_ROWS,
        '        found = written.filter(pc.equal(written["kind"], kind))\n',
        "        found = written\n",
        f"{_FRAME_ROWS}::test_the_rows_are_those_of_the_kinds_that_are_asked_for",
    ),
    switched_off(
        FRAME_ROWS,
        "generations",
        "gives rows of which one says what the state does not know",
        "    if seen != written.num_rows:",
        f"{_FRAME_ROWS}::test_a_file_holds_only_what_there_is_to_say_and_segments_without_a_row_in_it_have_one_all_the_same",
    ),
    Mutation(
        "generations",
        "forgets the records behind a state",
        FOLDING,
        "                self._changes.add(batch)\n                self._fold(batch)\n",
        "                self._changes.add(batch)\n",
        f"{_READING_ON}::test_reading_on_comes_to_what_reading_all_comes_to",
    ),
    Mutation(
        "generations",
        "writes only the last of the records behind a state",
        FOLDING,
        "                self._changes.add(batch)\n                self._fold(batch)\n",
        "                self._fold(batch)\n",
        f"{_READING_ON}::test_reading_on_comes_to_what_reading_all_comes_to",
    ),
    Mutation(
        "generations",
        "lets the records behind a state grow for ever",
        FOLDING,
        "self._changes = _Changes(round(SHARE_OF_CHANGES * self._before.state.bytes))",
        "self._changes = _Changes(1 << 40)",
        f"{_READING_ON}::test_a_state_stays_until_a_quarter_of_its_bytes_is_new",
    ),
    Mutation(
        "generations",
        "goes on from a state without the records that it lacks",
        FOLDING,
        "            return before.state, before.changes\n",
        "            return before.state, None\n",
        f"{_READING_ON}::test_where_nothing_is_new_the_records_behind_a_state_stay_where_they_are",
    ),
    Mutation(
        "generations",
        "removes a state that a later generation goes on from",
        STORE,
        "for part in generation.parts.values() for file in part.files}",
        "for part in generation.parts.values() for file in part.files if False}",
        f"{_GENERATION}::test_what_a_later_generation_names_stays_as_long_as_it_is_named",
    ),
    Mutation(
        "generations",
        "believes a file of a generation that is still to come",
        MANIFEST,
        " or int(found[1]) > generation:",
        ":",
        f"{_GENERATION}::test_a_manifest_that_contradicts_itself_is_not_written_or_read",
    ),
]
