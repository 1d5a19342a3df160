# SPDX-License-Identifier: Apache-2.0
"""Breaks the floor: what runs of a work folder have read of the log, and what is refused where the log has lost it."""

from __future__ import annotations

from tests.mutations.mutation import CLEANER, MARKER, PLANNER, REPLAY, WRITE_GUARD, Mutation, switched_off

FLOORED_LOG = "event_log/floored_log.py"
FLOORS = "event_log/floors.py"
METADATA_TOPIC = "session/metadata_topic.py"
STAMPING = "storage/stamping.py"
_FLOOR = "event_log/test_floored_log.py::"
_LOST = "lifecycle/test_lost_records.py::"
_COMMAND = "cli/test_lost_log.py::"

LOST_RECORDS = [
    Mutation(
        "I18",
        "a log is not compared with what earlier runs have read of it",
        FLOORED_LOG,
        "        lost = _lost(log, floors, sleep)\n",
        "        lost: dict[int, LostRecords] = {}\n",
        f"{_COMMAND}test_a_scrub_deletes_nothing_of_a_living_topic_whose_records_are_lost",
    ),
    Mutation(
        "I18",
        "a log that has lost its end and grown again is the same log",
        FLOORED_LOG,
        "        if ends[number] < floor.end or there != remembered:",
        "        if ends[number] < floor.end:",
        f"{_FLOOR}test_a_log_that_lost_few_records_and_has_grown_again_is_known_by_the_last_one",
    ),
    switched_off(
        FLOORED_LOG,
        "I18",
        "a broker that is still catching up has lost records",
        "        if ends[number] != first[number]:",
        f"{_FLOOR}test_a_broker_that_is_still_catching_up_is_no_loss_and_the_command_may_be_tried_again",
    ),
    Mutation(
        "I18",
        "a confirmed loss is forgotten by the next run",
        FLOORED_LOG,
        "        losses = {number: loss.as_lost() for number, loss in known.items()} | lost\n",
        "        losses = dict(lost)\n",
        f"{_FLOOR}test_a_confirmed_loss_is_in_doubt_for_ever_and_the_floor_counts_anew",
    ),
    switched_off(
        FLOORED_LOG,
        "I18",
        "a run for real goes on without knowing what earlier runs have read",
        "            if not dry_run:",
        f"{_FLOOR}test_a_run_for_real_needs_to_know_and_to_remember_and_a_reading_command_says_so",
    ),
    switched_off(
        FLOORED_LOG,
        "I18",
        "a log that is swapped while a run reads it raises the floor",
        "            if last >= first:",
        f"{_FLOOR}test_a_log_that_is_swapped_while_a_run_reads_is_known_to_that_run",
    ),
    Mutation(
        "I18",
        "the last floor to be written counts, not the highest",
        FLOORS,
        "        end = max((floor.end for floor in of_now), default=0)\n",
        "        end = min((floor.end for floor in of_now), default=0)\n",
        f"{_FLOOR}test_the_highest_floor_counts_whoever_left_a_lower_one",
    ),
    Mutation(
        "I19",
        "a metadata topic that was made anew is the one that runs have worked with",
        METADATA_TOPIC,
        "    if others and said is None:",
        "    if False:",
        f"{_COMMAND}test_a_metadata_topic_that_was_made_anew_is_refused_until_its_new_id_is_confirmed",
    ),
    Mutation(
        "I19",
        "a dry run records the id of a metadata topic that was made anew",
        METADATA_TOPIC,
        "    if others and not dry_run:",
        "    if others:",
        f"{_COMMAND}test_dry_runs_on_a_metadata_topic_that_was_made_anew_are_red_and_do_not_record_it",
    ),
    Mutation(
        "I19",
        "any id confirms that the metadata topic was made anew",
        METADATA_TOPIC,
        "    if said is not None and said != now:",
        "    if False:",
        f"{_COMMAND}test_another_id_than_the_new_one_confirms_nothing",
    ),
    Mutation(
        "I19",
        "another work folder knows nothing of the metadata topic that runs have worked with",
        "session/cleaner_session.py",
        "confirmation=confirmation, clock=clock, stamps=stamps)",
        "confirmation=confirmation, clock=clock)",
        f"{_COMMAND}test_another_work_folder_learns_by_the_stamp_that_the_metadata_topic_was_made_anew",
    ),
    Mutation(
        "I19",
        "a run for real goes on though the stamps cannot be read",
        METADATA_TOPIC,
        "_told(stamps.named, dry_run=dry_run)",
        "_told(stamps.named, dry_run=True)",
        f"{_COMMAND}test_a_real_run_that_cannot_read_the_stamps_is_refused",
    ),
    Mutation(
        "I19",
        "a confirmed metadata topic is not written into the stamps",
        METADATA_TOPIC,
        "        stamps.confirm(now, confirmation.by, clock())\n",
        "",
        f"{_COMMAND}test_a_confirmed_topic_is_known_to_every_other_work_folder",
    ),
    Mutation(
        "I19",
        "an old stamp never names the metadata topic",
        STAMPING,
        "        if topic_id is None or stamp.metadata_topic_id is not None:",
        "        if True:",
        "storage/test_in_memory.py",
    ),
    switched_off(
        STAMPING,
        "I19",
        "a confirmation goes on that another run has written over",
        "            if now is None or now.metadata_topic_id != topic_id:",
        "storage/test_in_memory.py::test_a_confirmation_that_another_run_writes_over_is_an_error",
    ),
    switched_off(
        CLEANER,
        "I18",
        "a metadata partition that has lost records is cleaned",
        "        if lost is not None and lost.is_open:",
        f"{_LOST}test_nothing_is_cleaned_there_and_the_rest_of_the_run_goes_on",
    ),
    switched_off(
        MARKER,
        "I18",
        "partitions are marked where records are lost",
        "            if lost is not None and lost.is_open:",
        f"{_LOST}test_nothing_is_marked_there",
    ),
    switched_off(
        PLANNER,
        "I18",
        "segments are planned where records are lost",
        "        if replay.is_closed:",
        f"{_LOST}test_nothing_is_planned_there",
    ),
    Mutation(
        "I18",
        "a confirmed loss raises no doubt",
        REPLAY,
        "        if self.lost is not None:\n            return Doubt(",
        "        if False:\n            return Doubt(",
        f"{_LOST}test_once_it_is_confirmed_it_is_in_doubt_as_one_that_lost_its_beginning",
    ),
    Mutation(
        "I18",
        "a scrub believes what a log says that has lost records",
        "policy/scrub.py",
        '        (closed, ScrubClass.UNKNOWN, "its metadata partition has lost what an earlier run had read of it"),\n',
        "",
        f"{_LOST}test_a_scrub_calls_nothing_there_anything_but_unknown",
    ),
    Mutation(
        "I18",
        "the guard writes where records are lost",
        WRITE_GUARD,
        "            self._memory.require_unbroken({metadata_partition for metadata_partition, _ in records})\n",
        "            pass\n",
        "event_log/test_write_guard.py::test_nothing_is_written_where_the_log_has_lost_what_was_read",
    ),
    Mutation(
        "I18",
        "what a run has read is not written down before it changes anything",
        WRITE_GUARD,
        "            self._memory.keep()\n",
        "            pass\n",
        "event_log/test_write_guard.py::test_what_was_read_is_written_down_before_anything_is_changed",
    ),
    Mutation(
        "I18",
        "a plan is archived where records are lost",
        "lifecycle/archiving.py",
        "                    self._require_unbroken(metadata_partition)\n",
        "",
        "lifecycle/test_archiving.py::test_nothing_is_archived_where_the_log_has_lost_what_earlier_runs_have_read",
    ),
    Mutation(
        "I18",
        "a topic is archived though nobody knows what earlier runs have read",
        "session/cleaner_session.py",
        "        only_said = dry_run and not must_know_floors\n",
        "        only_said = dry_run\n",
        f"{_COMMAND}test_no_topic_is_archived_where_records_are_lost_or_nobody_knows",
    ),
    Mutation(
        "I18",
        "the metadata topic is read in green where records are lost",
        "operators/metadata.py",
        "if loss.is_open]",
        "if False]",
        "airflow/test_operators.py::test_a_topic_that_has_lost_what_was_read_of_it_is_read_in_red",
    ),
    Mutation(
        "I18",
        "a plan of Spark is green where records are lost",
        "operators/retention.py",
        "        seen = [*lost, *summary.refusals]\n",
        "        seen = [*summary.refusals]\n",
        "airflow/test_operators.py::test_a_plan_of_spark_is_red_where_the_topic_has_lost_what_earlier_runs_have_read",
    ),
]
