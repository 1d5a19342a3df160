# SPDX-License-Identifier: Apache-2.0
"""Mutations of what may be read from a catalogue, and of what is said of the rest: a bucket is a way round Kafka's rights."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

LEAVE = "core/world/catalogue_leave.py"
READS = "core/world/catalogue_reads.py"
FILES = "core/plans/catalogue_files.py"
STEPS = "features/reading/catalogue_steps.py"
RULES = "features/reading/catalogue_rules.py"
LOG = "features/reading/catalogued_log.py"
STORAGE = "features/reading/catalogued_storage.py"
SEGMENT = "features/reading/segment_reading.py"

_TESTS = "features/reading/test_catalogued.py::"
_LEAVE, _WHOLE = "by leave only", "never a silent gap"

CATALOGUED = [
    switched_off(
        LEAVE,
        _LEAVE,
        "reads a topic from a catalogue that no setting allows",
        "        if names.isdisjoint(self.allowed):",
        _TESTS + "test_no_topic_is_allowed_unless_the_settings_name_it",
    ),
    switched_off(
        LEAVE,
        _LEAVE,
        "reads a topic id of which no person says that it was not deleted",
        "        if topic_id not in self.was_not_deleted:",
        _TESTS + "test_a_person_says_of_each_topic_that_it_was_not_deleted",
    ),
    switched_off(
        LEAVE,
        _LEAVE,
        "reads a topic that a person calls erased",
        "        if topic_id in self.erased:",
        _TESTS + "test_what_a_person_calls_erased_is_never_read",
    ),
    switched_off(
        RULES,
        _LEAVE,
        "reads a segment that a person calls erased",
        "    if row.segment_id in erased:",
        _TESTS + "test_what_a_person_calls_erased_is_never_read",
    ),
    Mutation(
        _LEAVE,
        "lets the name of two topic ids allow both",
        LEAVE,
        "if topic and name_is_certain else",
        "if topic else",
        _TESTS + "test_a_name_of_two_ids_means_nothing",
    ),
    Mutation(
        _LEAVE,
        "takes one of two topic ids of a name",
        STEPS,
        "    if len(ids) > 1:\n        shown",
        "    if False:\n        shown",
        _TESTS + "test_a_name_of_two_ids_means_nothing",
    ),
    switched_off(
        STEPS,
        _LEAVE,
        "takes a name for that of one topic id where others of it were not looked for",
        "    if document.asked_for and name not in document.asked_for:",
        _TESTS + "test_a_name_counts_only_where_all_ids_of_it_were_looked_for",
    ),
    Mutation(
        _LEAVE,
        "reads what it could not write down",
        READS,
        "    except (OSError, ConfigurationError) as e:\n",
        "    except (OSError, ConfigurationError) as e:\n        return uri\n",
        _TESTS + "test_nothing_is_read_that_cannot_be_written_down",
    ),
    Mutation(
        "never guesses",
        "reads a table that is not the one of its catalogue",
        FILES,
        "            file.check(memoryview(data))\n",
        "",
        _TESTS + "test_a_catalogue_that_was_changed_is_not_read",
    ),
    switched_off(
        STORAGE,
        "never guesses",
        "reads objects of another size than the catalogue has",
        "        if (size := sum(stored.size for stored in there.values())) != said.bytes:",
        _TESTS + "test_objects_are_compared_with_the_catalogue_before_they_are_read",
    ),
    switched_off(
        STEPS,
        "never guesses",
        "reads by the catalogue of another storage",
        '    if (document.storage.rstrip("/"), document.layout) != here:',
        _TESTS + "test_a_catalogue_of_another_storage_or_cluster_is_refused",
    ),
    switched_off(
        SEGMENT,
        _WHOLE,
        "passes over records behind a log that ends too early",
        "            if self._sizes.to_the_end:",
        _TESTS + "test_a_log_that_ends_before_its_last_offset_is_damaged",
    ),
    Mutation(
        _WHOLE,
        "looks for a time in what lies behind a hole",
        LOG,
        "OffsetRange(bounds.start if by_time else found.start, found.end)",
        "OffsetRange(found.start, found.end)",
        _TESTS + "test_nothing_is_read_around_a_hole",
    ),
    Mutation(
        _WHOLE,
        "leaves out an encrypted segment at the end of a range",
        LOG,
        "        if (missing or unseen) and not allow_incomplete:",
        "        if unseen and not allow_incomplete:",
        _TESTS + "test_encrypted_segments_are_refused_by_name",
    ),
    Mutation(
        _WHOLE,
        "says nothing of folders that were not listed whole",
        LOG,
        "        if (missing or unseen) and not allow_incomplete:",
        "        if missing and not allow_incomplete:",
        _TESTS + "test_what_was_not_listed_is_said",
    ),
    Mutation(
        "never guesses",
        "reads an older lineage and says nothing",
        LOG,
        "        if refused is not None:\n            segment",
        "        if False:\n            segment",
        _TESTS + "test_an_older_lineage_is_read_where_it_alone_covers_the_range_and_a_person_is_told",
    ),
    Mutation(
        "never guesses",
        "reads one of two copies of the same offsets and says nothing",
        LOG,
        "return contradictions(doubtful, lineage, found)",
        "return []",
        _TESTS + "test_copies_between_which_nothing_decides_are_said",
    ),
    Mutation(
        _WHOLE,
        "hides offsets of a segment behind a shorter one",
        RULES,
        "sorted(of_epoch, key=lambda part: part[:3])",
        "of_epoch",
        _TESTS + "test_segments_in_any_order_and_overlap_hide_no_offset",
    ),
    switched_off(
        "features/archiving/archive/segments.py",
        _WHOLE,
        "archives a log by a catalogue that ends too early",
        "        if self._to_the_end and self._next_offset <= self._metadata.end_offset:",
        "cli/test_read_catalogue.py::test_an_archived_log_has_to_reach_its_last_offset",
    ),
    Mutation(
        _WHOLE,
        "archives a topic by a catalogue without a look at what it lacks",
        "features/archiving/catalogued_archives.py",
        "        log.offsets(tip, ReadRange(), ReadIsolation.READ_UNCOMMITTED)\n",
        "        pass\n",
        "cli/test_read_catalogue.py::test_nothing_is_archived_of_a_topic_that_lacks_anything",
    ),
    Mutation(
        _LEAVE,
        "archives by rule what a person should decide first",
        "features/archiving/catalogued_archives.py",
        "    asked = replace(asked, or_doubtful=False)\n",
        "    asked = replace(asked, or_doubtful=True)\n",
        "cli/test_read_catalogue.py::test_nothing_is_archived_of_a_topic_that_lacks_anything",
    ),
    Mutation(
        _WHOLE,
        "finds no record of a time though one may lie in a hole",
        LOG,
        "(found.start < found.end or by_time):\n",
        "found.start < found.end:\n",
        "cli/test_read_catalogue.py::test_an_offset_is_not_looked_for_round_what_cannot_be_read",
    ),
    Mutation(
        _WHOLE,
        "finds an offset without a look at what lies before",
        "cli/remote_log.py",
        "            catalogued.offsets(tip, wanted, isolation, allow_incomplete=allow_incomplete)\n",
        "            pass\n",
        "cli/test_read_catalogue.py::test_an_offset_is_not_looked_for_round_what_cannot_be_read",
    ),
    switched_off(
        "features/archiving/catalogued_archives.py",
        _WHOLE,
        "archives a topic by a catalogue and passes over what is encrypted",
        "    if found := log.encrypted(tip):",
        "cli/test_read_catalogue.py::test_an_encrypted_copy_of_what_can_be_read_is_not_passed_over_by_an_archive",
    ),
    Mutation(
        "never guesses",
        "compares nothing with the catalogue on executors",
        "features/reading/pieces.py",
        "opened if self.catalogued is None else CataloguedStorage(opened, self.catalogued)",
        "opened",
        "cli/test_read_catalogue.py::test_a_topic_is_cut_into_pieces_that_others_read_by_the_catalogue",
    ),
]
