# SPDX-License-Identifier: Apache-2.0
"""Mutations of what a scrub may call what, and of what it may delete (I13, I20)."""

from __future__ import annotations

from tests.mutations.mutation import LAYOUT_STORAGE, Mutation, switched_off

RULES = "policy/scrub.py"
SCRUB_PLAN = "policy/scrub_plan.py"
SCRUB = "lifecycle/scrub.py"
READING = "lifecycle/scrub_reading.py"
LISTED = "lifecycle/listed_objects.py"
FILES = "lifecycle/scrub_files.py"
PLANNER = "lifecycle/scrub_planner.py"
DELETER = "lifecycle/scrub_cleaner.py"
WALK = "storage/walk.py"
OPERATORS = "operators/scrub.py"
STEPS = "session/scrubbing.py"
FACTORY = "dag_factory/scrub.py"
COMMAND = "cli/scrubbing.py"

UNNAMED = "policy/unnamed.py"
SUMMARY = "policy/scrub_summary.py"
GUARD = "lifecycle/unnamed_guard.py"

_FORGOTTEN_TEST = "lifecycle/test_forgotten_prefixes.py::"
_UNNAMED_TEST = "lifecycle/test_unnamed_objects.py::"
_SCRUB_TEST = "lifecycle/test_scrub.py::"
_PLAN_TEST = "lifecycle/test_scrub_plan.py::"

SCRUBS = [
    Mutation(
        "I13",
        "takes watermarks after the listing for those before it",
        SCRUB,
        "    before = dict(log.high_water_marks())",
        "    before = {number: 2**62 for number in range(log.partition_count)}",
        _SCRUB_TEST + "test_what_is_finished_while_storage_is_listed_is_not_left_behind",
    ),
    Mutation(
        "I13",
        "believes a log that ends before the second watermarks",
        READING,
        "            if self.state.next_offsets[number] < end:",
        "            if False:",
        _SCRUB_TEST + "test_a_log_that_ends_before_the_second_watermarks_is_an_error",
    ),
    Mutation(
        "I13",
        "calls unreferenced what a record names that cannot be applied",
        RULES,
        '_is_among(rows["segment_id"], log.mentioned)',
        "pc.and_(False, is_known)",
        _SCRUB_TEST + "test_a_segment_that_only_an_inapplicable_record_names_is_not_unreferenced",
    ),
    Mutation(
        "I13",
        "calls unreferenced what a log with lost or bad records does not name",
        RULES,
        'in_doubt = _is_among(rows["home"], pa.array(sorted(log.doubtful), pa.int32()))',
        "in_doubt = pc.and_(False, is_known)",
        _SCRUB_TEST + "test_a_lost_beginning_makes_unknown_what_would_be_unreferenced",
    ),
    Mutation(
        "I13",
        "calls unreferenced what lies under a topic id that the log never named",
        RULES,
        "(pc.invert(id_named), ScrubClass.UNKNOWN_TOPIC_ID",
        "(pc.and_(False, id_named), ScrubClass.UNKNOWN_TOPIC_ID",
        _SCRUB_TEST + "test_objects_of_an_unknown_topic_id_and_of_no_layout",
    ),
    Mutation(
        "I13",
        "judges objects of a folder whose listing ended early",
        RULES,
        '(pc.invert(rows["is_whole"]), ScrubClass.UNKNOWN',
        "(pc.and_(False, is_known), ScrubClass.UNKNOWN",
        _SCRUB_TEST + "test_a_listing_that_ends_early_calls_nothing_unreferenced",
    ),
    Mutation(
        "I13",
        "calls missing what a folder does not show that could not be listed",
        SCRUB,
        "            if not all(map(listed.is_whole, folders)):",
        "            if False:",
        _SCRUB_TEST + "test_a_folder_that_cannot_be_listed_ends_only_its_own_classification",
    ),
    switched_off(
        WALK,
        "one foreign key ends no scrub",
        "asks a store that is down for every folder",
        "        if self._failures >= _MAX_FAILURES:",
        _SCRUB_TEST + "test_a_store_that_is_down_is_not_asked_for_every_folder",
    ),
    Mutation(
        "I13",
        "measures the wait since the first scrub, whether there was a second one or not",
        PLANNER,
        "    scrubbed_at_ms = summary.began_at_ms if summary.time_is_proven else None",
        "    scrubbed_at_ms = now_ms",
        _PLAN_TEST + "test_the_second_scrub_must_have_been_made",
    ),
    Mutation(
        "I10",
        "measures the wait by the time of a scrub that nobody proves",
        PLANNER,
        "    scrubbed_at_ms = summary.began_at_ms if summary.time_is_proven else None",
        "    scrubbed_at_ms = summary.began_at_ms",
        _PLAN_TEST + "test_no_wait_is_measured_by_a_time_that_nobody_proves",
    ),
    Mutation(
        "I10",
        "begins the wait at a time that nobody proves",
        FILES,
        "    fresh = now_ms if time_is_proven else None",
        "    fresh = now_ms",
        _PLAN_TEST + "test_no_wait_is_measured_by_a_time_that_nobody_proves",
    ),
    Mutation(
        "I13",
        "takes an object that was written again for the one of before",
        FILES,
        '_ROW = ["class", "key", "bytes", "last_modified_ms"]',
        '_ROW = ["class", "key"]',
        _PLAN_TEST + "test_the_wait_begins_anew",
    ),
    Mutation(
        "I13",
        "takes the scrub of another log for an earlier one",
        FILES,
        "    return rows if same_log else None",
        "    return rows",
        _PLAN_TEST + "test_the_wait_begins_anew",
    ),
    Mutation(
        "I13",
        "does not wait for objects that no record names",
        SCRUB_PLAN,
        "        return since_ms <= self.scrubbed_at_ms - self.limits.min_unreferenced_ms",
        "        return True",
        _PLAN_TEST + "test_unreferenced_objects_wait_between_two_scrubs",
    ),
    Mutation(
        "I20",
        "plans what no record names though some of it lies under a living topic",
        SCRUB_PLAN,
        "        all_barred = that_bar(rows).num_rows > 0 or not self.listed_whole",
        "        all_barred = not self.listed_whole",
        _UNNAMED_TEST + "test_one_object_under_a_topic_id_that_may_live_keeps_all_that_no_record_names",
    ),
    Mutation(
        "I20",
        "plans what no record names though a folder could not be listed",
        SCRUB_PLAN,
        "        all_barred = that_bar(rows).num_rows > 0 or not self.listed_whole",
        "        all_barred = that_bar(rows).num_rows > 0",
        _UNNAMED_TEST + "test_a_folder_that_cannot_be_listed_whole_keeps_all_that_no_record_names",
    ),
    Mutation(
        "I20",
        "plans what no record names under a topic id that may live",
        UNNAMED,
        "    if presence != Presence.ABSENT.value:",
        "    if False:",
        _UNNAMED_TEST + "test_why_an_object_that_no_record_names_stays",
    ),
    Mutation(
        "I20",
        "plans what no record names of a topic that nobody marked",
        UNNAMED,
        "        return Kept.UNMARKED",
        "        return None",
        _UNNAMED_TEST + "test_what_no_marker_calls_absent_stays",
    ),
    Mutation(
        "I20",
        "plans what no record names and is younger than the marker",
        UNNAMED,
        "    if last_modified_ms > marked_ms:",
        "    if False:",
        _UNNAMED_TEST + "test_an_object_that_is_younger_than_the_marker_stays_and_needs_a_person",
    ),
    Mutation(
        "I20",
        "plans what no record names before min_absence is over",
        UNNAMED,
        "    if now_ms is None or now_ms - marked_ms < min_absence_ms:",
        "    if now_ms is None:",
        _UNNAMED_TEST + "test_what_no_marker_calls_absent_stays",
    ),
    Mutation(
        "I20",
        "deletes what no record names though some of it lies under a living topic by now",
        GUARD,
        "        self._note(found.objects)\n",
        "",
        _UNNAMED_TEST + "test_what_shows_up_under_a_living_topic_after_the_plan_stops_the_class",
    ),
    Mutation(
        "I20",
        "deletes what no record names of a topic that hides between two batches",
        DELETER,
        "            elif kind in UNNAMED and guard.barred is not None:",
        "            elif False:",
        _UNNAMED_TEST + "test_what_shows_up_under_a_living_topic_after_the_plan_stops_the_class",
    ),
    Mutation(
        "I20",
        "deletes what no record names though its marker is void by now",
        DELETER,
        '            elif (kept := guard.why_kept(judged[row["key"]])) is not None:',
        "            elif (kept := None) is not None:",
        _UNNAMED_TEST + "test_a_marker_that_is_void_by_now_keeps_what_the_plan_names",
    ),
    Mutation(
        "I12",
        "stays green though storage holds what the log does not name",
        SUMMARY,
        "    for unnamed in summary.unnamed:",
        "    for unnamed in ():",
        _UNNAMED_TEST + "test_a_finding_lists_the_first_keys_and_counts_all",
    ),
    switched_off(
        SCRUB_PLAN,
        "I13",
        "waits less than 24 hours without being told by name",
        "        if self.min_unreferenced_ms < FLOOR_UNREFERENCED_MS and SHORT_WAIT not in self.overrides:",
        _PLAN_TEST + "test_limits",
    ),
    Mutation(
        "I13",
        "plans objects of topic ids that the log never named",
        SCRUB_PLAN,
        "if self.sole_owner else",
        "if True else",
        _PLAN_TEST + "test_a_topic_id_that_the_log_never_named_needs_the_word_of_the_connection",
    ),
    Mutation(
        "I13",
        "deletes objects of topic ids that the log never named",
        DELETER,
        "            return self.sole_owner",
        "            return True",
        _PLAN_TEST + "test_a_topic_id_that_the_log_never_named_needs_the_word_of_the_connection",
    ),
    Mutation(
        "I13",
        "takes a file of an unknown suffix for an object of its segment",
        LISTED,
        "if found is not None and found[1] in self._layout.suffixes]",
        "if found is not None]",
        _PLAN_TEST + "test_objects_that_the_layout_does_not_know_stay",
    ),
    Mutation(
        "I2",
        "deletes at a place that nothing shows to be the cluster's",
        DELETER,
        '    if unproven := sorted(set(planned["place"].to_pylist()) - check.verified_places):',
        "    if unproven := []:",
        _PLAN_TEST + "test_a_place_that_is_not_shown_to_be_the_clusters_is_left",
    ),
    Mutation(
        "I13",
        "deletes what the log calls something else by now",
        DELETER,
        '            if kind != row["class"] or not self._may_go(kind):',
        "            if False:",
        _PLAN_TEST + "test_a_segment_that_is_named_since_the_scrub_stays",
    ),
    Mutation(
        "I13",
        "reads the log before the objects are listed",
        DELETER,
        '        stored = self.storage.stored_objects([row["key"] for row in rows])\n',
        '        reading.read({})\n        stored = self.storage.stored_objects([row["key"] for row in rows])\n'
        "        reading.read = lambda ends: None\n",
        _PLAN_TEST + "test_a_segment_that_is_named_after_the_listing_stays",
    ),
    Mutation(
        "I13",
        "deletes an object that was written again since the scrub",
        DELETER,
        '            elif found != StoredObject(row["key"], row["bytes"], row["last_modified_ms"]):',
        "            elif False:",
        _PLAN_TEST + "test_an_object_that_was_written_again_stays",
    ),
    Mutation(
        "I9",
        "does not look whether log and cluster are one before it deletes",
        DELETER,
        "        look(self.topics, self.log, {})\n",
        "",
        _PLAN_TEST + "test_another_cluster_is_noticed",
    ),
    Mutation(
        "a hold",
        "deletes what a hold names",
        DELETER,
        "        free = [row for row in rows if hold.refusal_of(_tip(row), ()) is None]",
        "        free = list(rows)",
        _PLAN_TEST + "test_what_a_hold_names_stays",
    ),
    Mutation(
        "writing is opt-in",
        "deletes what a scrub has found though writes are off",
        DELETER,
        '            self.require_writes(f"delete {len(going)} objects that a scrub has found")\n',
        "",
        _PLAN_TEST + "test_nothing_goes_where_writes_are_off_or_in_a_dry_run",
    ),
    Mutation(
        "I2",
        "believes a store that says it has deleted an object",
        LAYOUT_STORAGE,
        "            left = self.stored_objects(keys)\n",
        "            left = {}\n",
        _PLAN_TEST + "test_what_the_store_refuses_is_said_and_needs_a_person",
    ),
    Mutation(
        "I12",
        "stays green though a task before it failed",
        OPERATORS,
        "        elif failed := failed_before(self, context):",
        "        elif failed := 0:",
        "airflow/test_scrub_operators.py::test_a_task_that_failed_fails_the_report",
    ),
    Mutation(
        "I21",
        "lists nothing below a key prefix that only finished segments name",
        SCRUB,
        "look_below(reading.forgotten_prefixes(), storage",
        "look_below((), storage",
        _FORGOTTEN_TEST + "test_what_lies_below_a_forgotten_prefix_is_counted_and_needs_a_person",
    ),
    Mutation(
        "I21",
        "takes a forgotten prefix that cannot be listed for an empty one",
        "lifecycle/forgotten_prefixes.py",
        "                    why = why or met.why",
        "                    why = ''",
        _FORGOTTEN_TEST + "test_a_forgotten_prefix_that_cannot_be_listed_needs_a_person",
    ),
    Mutation(
        "I21",
        "calls a folder of a topic that the log knows one of no topic",
        WALK,
        "            elif self._holds_known_topics(directory):",
        "            elif False:",
        _FORGOTTEN_TEST + "test_a_folder_of_a_topic_that_the_log_knows_is_never_of_no_topic",
    ),
    switched_off(
        STEPS,
        "approval",
        "the deletion of a scrub asks for no approval",
        "    if approve_above is not None:",
        "airflow/test_scrub_operators.py::test_what_a_person_has_approved_of_a_scrub_is_deleted_and_nothing_before",
    ),
    Mutation(
        "approval",
        "the deletion in the scrub's DAG asks for no approval",
        FACTORY,
        "        approve_above=params.APPROVE_ABOVE,\n        confirm_lost_records=",
        "        confirm_lost_records=",
        "airflow/test_dags.py::test_the_steps_of_a_scrub",
    ),
    Mutation(
        "approval",
        "a rejected plan of a scrub stays green",
        OPERATORS,
        "        if rejected is not None:",
        "        if False:",
        "airflow/test_scrub_operators.py::test_a_rejected_plan_of_a_scrub_is_red_and_says_who",
    ),
    Mutation(
        "approval",
        "the command asks for the cluster before it says what goes",
        COMMAND,
        '    run = begin_to_ask(invocation, "scrub", execute=execute, confirm=confirm)',
        '    run = confirmed(begin_to_ask(invocation, "scrub", execute=execute, confirm=confirm), "")',
        "cli/test_scrub_command.py::test_what_goes_is_shown_before_the_cluster_is_asked_for",
    ),
]
