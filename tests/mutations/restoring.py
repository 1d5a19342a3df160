# SPDX-License-Identifier: Apache-2.0
"""Mutations of restores from a catalogue, and of those that were interrupted."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

STEPS = "features/archiving/restore_steps.py"
RULES = "features/archiving/restore_rules.py"
PROGRESS = "features/archiving/restore_progress.py"
EFFECTS = "features/archiving/restore_effects.py"
DOCUMENT = "features/archiving/restore_document.py"
UNDECIDED = "features/reading/undecided.py"
CATALOGUE = "features/archiving/restore_catalogue.py"
LOG = "features/reading/catalogued_log.py"

_LEAVE, _GAPS = "by leave only", "never a silent gap"
_RESTORE = "restore"
_RESUMED = "a resume goes on behind the source's first records only"
_RESUMING = "features/archiving/test_restore_resuming.py::"
_OPEN = "an open transaction hides nothing behind it"
_UNDECIDED = "features/reading/test_undecided.py::"
_OFFSETS = "the old offsets are told, and nothing else changes"
_OLD = "features/archiving/test_old_offsets.py::"
_CATALOGUES = "features/archiving/test_restoring_catalogues.py::"

RESTORED = [
    switched_off(
        RULES,
        _LEAVE,
        "restores from a bucket without a start that a person names",
        "        if not self.beginning and self.time_ms is None and not self.offsets:",
        _CATALOGUES + "test_a_start_has_to_be_named",
    ),
    switched_off(
        RULES,
        _LEAVE,
        "restores a partition whose start is not named",
        "        if open_ones and not self.beginning and self.time_ms is None:",
        _CATALOGUES + "test_a_start_names_every_partition_and_no_other",
    ),
    Mutation(
        _LEAVE,
        "restores what a person should decide first",
        CATALOGUE,
        "            replace(catalogue.asked, or_doubtful=False),\n",
        "            catalogue.asked,\n",
        _CATALOGUES + "test_what_a_person_should_decide_is_refused_though_it_is_read_elsewhere",
    ),
    Mutation(
        _LEAVE,
        "takes the catalogue of the lost cluster for one of the cluster that is written to",
        CATALOGUE,
        "allow_writes=False, expected_cluster_id=cluster_id)",
        "allow_writes=False)",
        _CATALOGUES + "test_every_record_is_written_and_each_partition_says_how_far_it_reaches",
    ),
    switched_off(
        STEPS,
        _RESTORE,
        "writes records of a topic into that topic itself",
        "    if (source.cluster_id, topic_id) == (cluster_id, kafka_uuid_str(look.topic_id)):",
        _CATALOGUES + "test_a_topic_is_not_restored_into_itself",
    ),
    Mutation(
        _RESTORE,
        "says that offsets stay though they differ",
        "features/archiving/archive/measuring.py",
        "        if differs_from is None and moved.any():\n",
        "        if False:\n",
        _CATALOGUES + "test_every_record_is_written_and_each_partition_says_how_far_it_reaches",
    ),
    switched_off(
        DOCUMENT,
        _RESUMED,
        "goes on with another source, or other choices",
        "    if differences := begun.differences(now):",
        _RESUMING + "test_a_source_that_has_changed_is_refused",
    ),
    switched_off(
        PROGRESS,
        _RESUMED,
        "goes on behind records that are not those of the source",
        "    if (found.count, found.hexdigest()) != (expected.count, expected.hexdigest()):",
        _RESUMING + "test_what_is_not_the_first_records_of_the_source_is_refused",
    ),
    Mutation(
        _RESUMED,
        "writes again what is there",
        EFFECTS,
        "        rest = behind(runs.following(number, begin, log.read()), there)\n",
        "        rest = runs.following(number, begin, log.read())\n",
        _RESUMING + "test_killed_anywhere_it_converges",
    ),
    Mutation(
        _RESUMED,
        "goes on before what was sent has arrived",
        EFFECTS,
        "            look = at_rest(target, look, self.rest_s)\n",
        "            pass\n",
        _RESUMING + "test_what_an_interrupted_producer_had_sent_is_waited_for",
    ),
    Mutation(
        _RESUMED,
        "waits once, and not until the topic rests",
        PROGRESS,
        "            since = clock()\n        if clock()",
        "            pass\n        if clock()",
        _RESUMING + "test_what_an_interrupted_producer_had_sent_is_waited_for",
    ),
    switched_off(
        PROGRESS,
        _RESUMED,
        "waits for ever for a topic that another producer writes into",
        "        if clock() - began > MOST_WAITS * rest_s:",
        _RESUMING + "test_a_topic_that_goes_on_to_grow_is_another_writers",
    ),
    switched_off(
        PROGRESS,
        _RESUMED,
        "goes on in a topic that took the place of the other",
        "        if now.topic_id != look.topic_id:",
        _RESUMING + "test_a_topic_that_is_replaced_while_it_rests_is_noticed",
    ),
    Mutation(
        _RESUMED,
        "writes records before it has written down what it promises",
        EFFECTS,
        "            write_begun(self.work_uri, document)\n",
        "            pass\n",
        _RESUMING + "test_the_document_is_there_before_the_first_record",
    ),
    Mutation(
        _RESUMED,
        "takes any topic with records for one that it has begun",
        STEPS,
        "obstacles(look, measured, system_clock(), resumed=begun is not None)",
        "obstacles(look, measured, system_clock(), resumed=True)",
        _RESUMING + "test_without_its_document_a_topic_with_records_is_refused",
    ),
    switched_off(
        UNDECIDED,
        _OPEN,
        "believes a log that its producer snapshot contradicts",
        "    if found != begun_here:",
        _UNDECIDED + "test_a_snapshot_that_contradicts_the_log_is_refused",
    ),
    Mutation(
        _OPEN,
        "restores nothing behind the first open transaction",
        "features/reading/reader.py",
        "committed=committed and decided is None)",
        "committed=committed)",
        "features/archiving/test_archive_reading.py::test_aborted_and_open_transactions_are_kept_and_not_committed",
    ),
    Mutation(
        _OPEN,
        "restores records of transactions without an end, unasked",
        UNDECIDED,
        "        if self.keep:\n",
        "        if True:\n",
        "features/archiving/test_archive_reading.py::test_aborted_and_open_transactions_are_kept_and_not_committed",
    ),
    Mutation(
        _OPEN,
        "a transaction without an end that is not decided needs no person",
        STEPS,
        "        unasked = self.transactions if self.undecided is None else []\n",
        "        unasked: list[str] = []\n",
        _CATALOGUES + "test_a_transaction_without_an_end_needs_a_person_until_one_has_decided",
    ),
    switched_off(
        RULES,
        _OFFSETS,
        "adds a header of a name that a record has already",
        "    if found.has_header is not None:",
        _OLD + "test_a_record_that_has_the_header_already_is_refused",
    ),
    Mutation(
        _OFFSETS,
        "leaves the header out of the size check",
        "features/archiving/archive/measuring.py",
        "    if offset_header and digest.count:\n",
        "    if False:\n",
        _OLD + "test_the_header_counts_where_sizes_are_checked",
    ),
    Mutation(
        _OFFSETS,
        "does not compare what the header says",
        PROGRESS,
        "    return WITHOUT_OFFSETS if expected.offsets_sha256 is None else WITH_OFFSETS\n",
        "    return WITHOUT_OFFSETS\n",
        _OLD + "test_records_say_which_offset_they_had",
    ),
    Mutation(
        _OFFSETS,
        "tells the offsets of a resumed restore from where it went on",
        EFFECTS,
        "behind(runs.following(number, begin, log.read()), there)",
        "runs.following(number, begin, behind(log.read(), there))",
        _OLD + "test_all_offsets_are_told_by_a_restore_that_went_on",
    ),
    Mutation(
        _GAPS,
        "restores behind the end that a person names",
        RULES,
        "        end = self.ends.get(partition)\n",
        "        end = None\n",
        _CATALOGUES + "test_it_ends_where_a_person_says",
    ),
    Mutation(
        _OPEN,
        "takes a transaction for an open one whose end lies behind the range",
        UNDECIDED,
        "    while opened and last is not None and (behind := extent.span_at(last.offsets.end)) is not None:\n",
        "    while False and last is not None and (behind := extent.span_at(last.offsets.end)) is not None:\n",
        _CATALOGUES + "test_a_transaction_that_ends_behind_the_end_is_no_open_one",
    ),
    Mutation(
        _GAPS,
        "goes round a hole of a catalogue in green",
        STEPS,
        '            *(f"the {self.source} is not whole: {why}" for why in self.incomplete),\n',
        "",
        _CATALOGUES + "test_what_there_is_round_a_hole_is_restored_where_a_person_takes_it",
    ),
    switched_off(
        CATALOGUE,
        _GAPS,
        "goes round no hole though a person takes what there is",
        "        if self._or_incomplete:",
        _CATALOGUES + "test_what_there_is_round_a_hole_is_restored_where_a_person_takes_it",
    ),
    Mutation(
        _GAPS,
        "says nothing of segments that cannot be read where it goes round them",
        CATALOGUE,
        "        self.missing = [why for _, missing in opened for why in missing]\n",
        "        self.missing = []\n",
        _CATALOGUES + "test_a_segment_that_cannot_be_read_is_missing_by_its_id",
    ),
    Mutation(
        _GAPS,
        "says nothing of a hole in which the first record of a time may lie",
        LOG,
        "        begin = bounds.start if by_time else found.start\n",
        "        begin = found.start\n",
        _CATALOGUES + "test_what_is_missing_is_named_wherever_it_lies",
    ),
    switched_off(
        STEPS,
        _GAPS,
        "takes the override of an archive for one of a catalogue",
        "    if others := sorted(set(overrides) - {fitting}):",
        _CATALOGUES + "test_an_override_is_about_its_own_source",
    ),
]
