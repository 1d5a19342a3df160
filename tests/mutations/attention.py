# SPDX-License-Identifier: Apache-2.0
"""Mutations of what needs a person, and of what a dry run says."""

from __future__ import annotations

from tests.mutations.mutation import PLANNER, Mutation, switched_off

ATTENTION = "policy/attention.py"
REPORTS = "lifecycle/reports.py"
RUN_REPORT = "lifecycle/run_report.py"
RUN_DOCUMENTS = "lifecycle/run_documents.py"
OPERATORS = "operators/cleaner.py"
ACKNOWLEDGING = "operators/acknowledging.py"

NEEDS_A_PERSON = [
    switched_off(
        OPERATORS,
        "I12",
        "a run with something that needs a person ends green",
        "        if report.judgement.failing:",
        "airflow/test_operators.py::test_a_problem_fails_the_run_after_the_healthy_rest_is_done_until_it_is_acknowledged",
    ),
    Mutation(
        "I12",
        "the marker's refusals are only logged",
        OPERATORS,
        "        write_document(uri, MARK_DOCUMENT, json.dumps(mark_document(report, session.cluster_id)))\n",
        "",
        "airflow/test_operators.py::test_the_markers_refusals_reach_the_report_though_the_task_after_it_failed",
    ),
    Mutation(
        "I12",
        "the report forgets the marker's refusals",
        RUN_REPORT,
        "for r in (*run.not_planned, *run.not_marked)]",
        "for r in run.not_planned]",
        "lifecycle/test_run_report.py::test_refusals_of_marker_planner_and_cleaner_need_a_person_each_once",
    ),
    Mutation(
        "I12",
        "quarantined records where nothing is marked are only counted",
        PLANNER,
        "        self.refuse(records[: max(0, MAX_QUARANTINED_LISTED - listed)])\n",
        "",
        "lifecycle/test_planner.py::test_quarantined_records_are_listed_one_by_one_wherever_they_lie_and_up_to_a_bound",
    ),
    Mutation(
        "I12",
        "quarantined records beyond those that are listed are forgotten",
        RUN_REPORT,
        "for place in listed)) > 0:",
        "for place in listed)) > 1_000:",
        "lifecycle/test_run_report.py::test_quarantined_records_beyond_those_that_are_listed_are_not_forgotten",
    ),
    Mutation(
        "I12",
        "a part that cannot be read is taken for one that is not there",
        RUN_DOCUMENTS,
        "            self.unreadable.append(_unreadable(name, str(e), metadata_partition))\n",
        "",
        "lifecycle/test_run_report.py::test_a_part_that_cannot_be_read_is_an_entry_and_the_others_count",
    ),
    Mutation(
        "I12",
        "a run that its blast radius stopped does not say so",
        RUN_REPORT,
        "    if plan is None or plan.blast_radius is None or plan.within_blast_radius:",
        "    if True:",
        "lifecycle/test_run_report.py::test_a_run_stopped_by_its_blast_radius_says_so_and_counts_what_is_left",
    ),
    Mutation(
        "I12",
        "an acknowledgement of one cluster counts for another",
        ATTENTION,
        "        if word.cluster_id == cluster_id:",
        "        if word:",
        "policy/test_attention.py::test_another_clusters_acknowledgement_covers_nothing_here",
    ),
    Mutation(
        "I12",
        "an expired acknowledgement counts",
        ATTENTION,
        "        if found is not None and now_ms < found.until_ms:",
        "        if found is not None:",
        "policy/test_attention.py::test_an_expired_acknowledgement_fails_again_and_says_so",
    ),
    Mutation(
        "I12",
        "one acknowledgement covers every partition that one record refuses",
        ATTENTION,
        "        one_record = self.topic is None and self.offset",
        "        one_record = self.offset",
        "policy/test_attention.py::test_two_partitions_refused_for_one_record_are_acknowledged_singly",
    ),
    Mutation(
        "I12",
        "one acknowledgement covers whatever storage refuses for a partition",
        ATTENTION,
        "        vague = self.kind in _VAGUE",
        "        vague = False",
        "policy/test_attention.py::test_where_the_kind_does_not_say_what_is_wrong_the_words_do",
    ),
    Mutation(
        "I12",
        "a number of unnamed problems is acknowledged",
        ATTENTION,
        "acknowledgeable=names_something and refusal",
        "acknowledgeable=refusal",
        "policy/test_attention.py::test_a_refusal_that_names_nothing_or_one_run_cannot_be_acknowledged",
    ),
    Mutation(
        "I12",
        "what is wrong with one run is acknowledged for the next",
        ATTENTION,
        " if problem.acknowledgeable else None",
        "",
        "policy/test_attention.py::test_what_ends_with_a_run_cannot_be_acknowledged",
    ),
    switched_off(
        ATTENTION,
        "I12",
        "an acknowledgement may last for ever",
        "    if until_ms > now_ms + MAX_ACKNOWLEDGED_MS:",
        "policy/test_attention.py::test_a_malformed_acknowledgement_fails_by_itself_and_the_others_count",
    ),
    switched_off(
        ATTENTION,
        "I12",
        "unknown fields of an acknowledgement are ignored",
        "    if unknown := sorted(entry.keys() - set(FIELDS)):",
        "policy/test_attention.py::test_a_malformed_acknowledgement_fails_by_itself_and_the_others_count",
    ),
    Mutation(
        "I12",
        "an acknowledgement that cannot be understood is ignored",
        ATTENTION,
        '            problems.append(_not_understood(f"entry {number} of {source}", str(e)))\n',
        "            continue\n",
        "policy/test_attention.py::test_a_malformed_acknowledgement_fails_by_itself_and_the_others_count",
    ),
    Mutation(
        "I12",
        "a list of acknowledgements that is none is taken for an empty one",
        ATTENTION,
        "        return Acknowledgements(problems=(unreadable_acknowledgements(source, str(e)),))",
        "        return Acknowledgements()",
        "policy/test_attention.py::test_a_variable_that_is_no_list_of_acknowledgements_fails_and_acknowledges_nothing",
    ),
    Mutation(
        "I12",
        "a variable that cannot be read is taken for none",
        ACKNOWLEDGING,
        '        return Acknowledgements(problems=(unreadable_acknowledgements(_SOURCE, f"{type(e).__name__}, see the log"),))',
        "        return Acknowledgements()",
        "airflow/test_operators.py::test_a_variable_that_cannot_be_read_fails_the_run_and_tells_no_secret",
    ),
    Mutation(
        "wait",
        "a normal wait is a refusal",
        REPORTS,
        '    counted["refusals"] = sum(r["kind"] != RefusalKind.WAITING.value for r in refusals_of(reports))',
        '    counted["refusals"] = len(list(refusals_of(reports)))',
        "lifecycle/test_run_report.py::test_a_wait_is_neither_red_nor_a_refusal",
    ),
    Mutation(
        "dry run",
        "a dry run emits an asset event",
        OPERATORS,
        "            self.outlets = []",
        "            pass",
        "airflow/test_operators.py::test_a_dry_run_emits_no_asset_event_even_where_nothing_was_marked",
    ),
    Mutation(
        "dry run",
        "what would have been deleted is called deleted",
        REPORTS,
        "IN_A_DRY_RUN.get(name, name) if dry_run else name",
        "name",
        "lifecycle/test_run_report.py::test_a_dry_run_says_so_where_nothing_was_planned_and_names_its_counts",
    ),
    Mutation(
        "dry run",
        "a run is called a dry run though a task of it was none",
        RUN_REPORT,
        "    is_dry = False not in run.dry_runs if run.dry_runs else dry_run",
        "    is_dry = dry_run or True in run.dry_runs",
        "lifecycle/test_run_report.py::test_where_the_tasks_disagree_something_was_done",
    ),
]
