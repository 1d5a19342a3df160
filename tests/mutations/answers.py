# SPDX-License-Identifier: Apache-2.0
"""Mutations of what is said of a run and of a cluster: what was not seen, what is left, what helps."""

from __future__ import annotations

from tests.mutations.attention import ATTENTION
from tests.mutations.mutation import GUARDS, LOCAL_WRITING, PLAN, Mutation, switched_off

SURVEY = "features/survey/survey.py"
ORPHANS = "features/survey/orphans.py"
WHY = "features/survey/why_steps.py"
READING_COMMANDS = "cli/orphaned.py"
WHOLE_CHECK = "features/cleanup/whole_check.py"
OVERVIEW = "plugins/overview.py"
CLEANER_OPERATORS = "operators/cleaner.py"
REPORTS = "features/cleanup/reports.py"
RUN_REPORT = "features/cleanup/run_report.py"

_HIDDEN = "features/survey/test_survey.py::test_what_nobody_may_describe_is_a_row_of_its_own_and_no_zero"
_ONCE = "features/cleanup/test_run_report.py::test_every_figure_of_a_run_is_counted_once_whatever_the_lists_leave_out"
_AS_RED = "cli/test_unseen.py::test_survey_and_check_are_as_red"

ANSWERS = [
    # -- what could not be seen
    Mutation(
        "I21",
        "a topic that may not be described counts as living",
        SURVEY,
        "return Verdict(SurveyedState.UNSEEN, SurveyedState.UNSEEN.value, seen.reason)",
        "return Verdict(SurveyedState.LIVING, seen.presence.value, seen.reason)",
        _HIDDEN,
    ),
    Mutation(
        "I21",
        "what cannot be told is no row of the orphans",
        ORPHANS,
        'if row["state"] != SurveyedState.LIVING.value',
        'if row["state"] not in (SurveyedState.LIVING.value, SurveyedState.UNSEEN.value)',
        _HIDDEN,
    ),
    Mutation(
        "I21",
        "what lies in a metadata partition out of service is judged as if it could be read",
        SURVEY,
        "    out = _out_of_service(views, limits.allowed_quarantine)\n",
        "    out: dict[int, str] = {}\n",
        "features/survey/test_survey.py::"
        "test_what_lies_in_a_metadata_partition_out_of_service_cannot_be_told_and_the_rest_is",
    ),
    Mutation(
        "I21",
        "a command that did not see everything ends green",
        READING_COMMANDS,
        "        code = ExitCode.NEEDS_A_PERSON if needs_person else code\n",
        "        code = ExitCode.DONE\n",
        _AS_RED,
    ),
    Mutation(
        "I21",
        "the check is green where topics are hidden",
        WHOLE_CHECK,
        "    return unseen or ALL_SEEN, not unseen",
        "    return unseen or ALL_SEEN, True",
        _AS_RED,
    ),
    # -- figures of one run
    Mutation(
        "figures",
        "what was not visited is not left",
        RUN_REPORT,
        "    return Count.sum([*(_planned(run, number) for number in run.absent), *unseen])",
        "    return Count.sum(_planned(run, number) for number in run.absent)",
        _ONCE,
    ),
    Mutation(
        "figures",
        "what waits is left, too",
        REPORTS,
        " for p in partitions if p.outcome is not PartitionOutcome.WAITING",
        " for p in partitions",
        _ONCE,
    ),
    Mutation(
        "figures",
        "what marker, planner and cleaner refuse counts three times",
        REPORTS,
        "first.setdefault(Attention.of_refusal(refusal, metadata_partition).key, refusal.count)",
        "first.setdefault(len(first), refusal.count)",
        _ONCE,
    ),
    Mutation(
        "figures",
        "what a list leaves out counts as one thing",
        ATTENTION,
        "return sum(judged.attention.count for judged in self.failing)",
        "return len(self.failing)",
        _ONCE,
    ),
    Mutation(
        "figures",
        "what waits and is not listed needs a person",
        PLAN,
        "return kind is (RefusalKind.OTHER if left_out.needs_person else RefusalKind.WAITING)",
        "return kind is RefusalKind.OTHER",
        "core/plans/test_plan.py::test_a_summary_has_room_for_the_first_refusals",
    ),
    Mutation(
        "figures",
        "what leaders delete counts as what this package deletes",
        PLAN,
        "        return self.by_reason.get(Reason.ORPHANED.value, Count(0, 0))",
        "        return self.planned",
        "core/plans/test_plan.py::test_what_leaders_delete_is_counted_apart_and_what_is_estimated_of_it",
    ),
    Mutation(
        "figures",
        "a segment that a leader deletes is no estimate",
        PLAN,
        "return self not in (Reason.ORPHANED, Reason.DANGLING)",
        "return False",
        "core/plans/test_plan.py::test_what_leaders_delete_is_counted_apart_and_what_is_estimated_of_it",
    ),
    # -- what helps
    Mutation(
        "answers",
        "a limit is named that refuses the same plan again",
        GUARDS,
        "enough = -(-planned.segments * 100 // known.segments) / 100",
        "enough = planned.segments * 100 // known.segments / 100",
        "core/plans/test_guards.py::test_the_share_that_is_named_lets_the_plan_pass",
    ),
    switched_off(
        RUN_REPORT,
        "answers",
        "a task that died is told as a missing plan",
        "    if run.plan is None and failed:",
        "features/cleanup/test_run_report.py::test_a_task_that_died_without_a_document_is_told_as_that",
    ),
    Mutation(
        "answers",
        "the report does not say which task died",
        CLEANER_OPERATORS,
        "failed=failed_tasks_before(self, context) if failed else (),",
        "failed=(),",
        "airflow/operators/test_operators.py::test_the_report_names_the_task_that_died_what_others_said_and_where_their_logs_are",
    ),
    Mutation(
        "answers",
        "a full disk is told without its path",
        LOCAL_WRITING,
        "        raise OSError(e.errno, words, str(path)) from e",
        "        raise",
        "core/base/test_file_systems.py::test_a_full_disk_names_file_and_remedy_at_whatever_step",
    ),
    Mutation(
        "I21",
        "segments that the log names without their add are counted nowhere",
        SURVEY,
        "    unsized = {key: count for key, count in topic.without_size().items() if key[0] in chosen}\n",
        "    unsized = {}\n",
        "features/survey/test_survey.py::test_segments_without_an_add_are_counted_as_of_unknown_size_and_never_as_0",
    ),
    Mutation(
        "I21",
        "the command ends green beside segments of deleted topics of unknown size",
        READING_COMMANDS,
        "unsized.orphaned + unsized.unseen > 0),",
        "False),",
        "cli/test_unseen.py::test_segments_of_unknown_size_are_said_beside_every_sum",
    ),
    Mutation(
        "I21",
        "'why' takes a record that it cannot read for none",
        WHY,
        "        if ErrorCode[record.code] not in APPLIED_CODES and _may_be_of(record, homes, topic_id, tip)\n",
        "        if False\n",
        "cli/test_why.py::test_a_record_that_cannot_be_read_may_say_something_else",
    ),
    Mutation(
        "I21",
        "'why' passes over what brokers apply",
        WHY,
        "pc.and_(applicable(decoded), _all_of(decoded, wanted))",
        'pc.and_(pc.equal(decoded.column("error_code"), 0), _all_of(decoded, wanted))',
        "cli/test_why.py::test_what_brokers_apply_is_believed_whatever_the_key_of_its_record",
    ),
    switched_off(
        OVERVIEW,
        "I21",
        "a page shows 0 orphans where it cannot tell",
        "    if totals.why_not_all_seen:",
        "airflow/plugins/test_cluster_pages.py",
    ),
]
