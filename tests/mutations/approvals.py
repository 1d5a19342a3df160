# SPDX-License-Identifier: Apache-2.0
"""Mutations of what is decided for a run: dry or real, from which plan, approved by whom, for which cluster."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

DECISION = "core/runs/run_decision.py"
DECIDING = "features/cleanup/deciding.py"
TASKS = "operators/decision.py"
WRITING = "operators/writing.py"
CHECKING = "operators/check.py"
CLEANER = "operators/cleaner.py"
APPROVAL = "core/plans/approval.py"
APPROVING = "operators/approval.py"
SESSION = "core/runs/cleaner_session.py"
STEPS = "features/cleanup/steps.py"
PARAMS = "dag_factory/params.py"
SETTINGS = "settings.py"
FACTORY = "dag_factory/cleaner.py"

_DECIDED = "airflow/operators/test_run_decision.py"
_OWN = "airflow/operators/test_dry_or_real.py"
_APPROVED = "airflow/operators/test_approval_operator.py"
_PAGES = "airflow/plugins/test_cluster_pages.py"
_DAGS = "airflow/dag_factory/test_dags.py"

APPROVALS = [
    Mutation(
        "decision",
        "a scheduled run goes by the parameters, against the connection",
        TASKS,
        "    automatic = by_connection and run_type in AUTOMATIC",
        "    automatic = False",
        f"{_DECIDED}::test_who_started_a_run_decides_who_says_what_it_does",
    ),
    Mutation(
        "decision",
        "a scheduled run is real unless the connection says otherwise",
        TASKS,
        "ScheduledRuns.of(settings.scheduled_runs) is not ScheduledRuns.REAL",
        "False",
        f"{_DECIDED}::test_who_started_a_run_decides_who_says_what_it_does",
    ),
    Mutation(
        "decision",
        "a run that an asset has started is taken for one that a user has started",
        DECISION,
        'AUTOMATIC = frozenset({"scheduled", "asset_triggered"})',
        'AUTOMATIC = frozenset({"scheduled"})',
        f"{_DECIDED}::test_who_started_a_run_decides_who_says_what_it_does",
    ),
    switched_off(
        DECIDING,
        "decision",
        "what check has verified is taken for a decision",
        "    if not isinstance(decision, dict):",
        f"{_DECIDED}::test_a_check_that_fails_takes_its_earlier_decision_away",
    ),
    Mutation(
        "decision",
        "the decision of an earlier try stays when check fails",
        CHECKING,
        "        forget_decision(uri)\n",
        "",
        f"{_DECIDED}::test_a_check_that_fails_takes_its_earlier_decision_away",
    ),
    switched_off(
        DECISION,
        "decision",
        "the decision of another run counts",
        "        if (decision.dag_id, decision.run_id) != (dag_id, run_id):",
        f"{_DECIDED}::test_the_decision_of_another_run_or_connection_counts_for_nothing",
    ),
    switched_off(
        TASKS,
        "decision",
        "the decision for another connection counts",
        "    if decision.connection != rlmm_conn_id:",
        f"{_DECIDED}::test_the_decision_of_another_run_or_connection_counts_for_nothing",
    ),
    Mutation(
        "decision",
        "a task does as it is told where its run was to be decided",
        TASKS,
        "    dry_run = decision.dry_run if decision and dry_run_only == AS_CHECKED else dry_run_only",
        "    dry_run = False",
        f"{_DECIDED}::test_who_started_a_run_decides_who_says_what_it_does",
    ),
    Mutation(
        "decision",
        "a task that writes is real where its DAG says nothing",
        WRITING,
        """        super().check_literals()
        if self.dry_run_only is None:
            raise unsaid(self)
""",
        "        super().check_literals()\n",
        f"{_OWN}::test_a_task_that_writes_is_told_whether_it_may_when_its_file_is_parsed",
    ),
    Mutation(
        "decision",
        "a task that writes is real where a template has left it open",
        WRITING,
        """        read = super().read_arguments()
        if self.dry_run_only is None:
            raise unsaid(self)
""",
        "        read = super().read_arguments()\n",
        f"{_OWN}::test_a_template_that_leaves_it_open_is_refused_before_anything_is_read",
    ),
    Mutation(
        "decision",
        "two groups of a run share plan and report",
        "operators/arguments.py",
        'artifact_name_of(run.dag_id, run.run_id, run_group_of(context.get("task")))',
        "artifact_name_of(run.dag_id, run.run_id)",
        "airflow/task_groups/test_remote_log_cleanup.py::test_two_groups_of_a_run_share_neither_plan_nor_report",
    ),
    Mutation(
        "decision",
        "the button of a group's approval answers for another group",
        "plugins/actions.py",
        'f"{run.group_id}.approve"',
        '"approve"',
        "airflow/plugins/test_cluster_pages.py::"
        "test_the_tab_of_a_run_leads_to_its_groups_and_each_has_the_button_of_its_own_approval",
    ),
    Mutation(
        "decision",
        "a run may be dry in one task and real in the next",
        TASKS,
        """    if dry and real:
""",
        """    if False:
""",
        f"{_OWN}::test_tasks_of_one_run_that_do_not_agree_fail_before_they_write",
    ),
    switched_off(
        TASKS,
        "decision",
        "tasks that were told nothing are dry where the writing ones are told later",
        "    if said and not known:",
        f"{_OWN}::test_check_needs_to_be_told_where_nobody_else_is",
    ),
    Mutation(
        "decision",
        "an older plan is taken where several have started a run",
        DECISION,
        "    newest = max(events,",
        "    newest = min(events,",
        f"{_DECIDED}::test_the_newest_plan_counts_and_none_of_another_asset",
    ),
    switched_off(
        TASKS,
        "decision",
        "the plan of an event of any asset is taken",
        "        if event.asset.name == name:",
        f"{_DECIDED}::test_a_run_that_a_plan_has_started_takes_its_work_from_there",
    ),
    Mutation(
        "decision",
        "the plan of another cluster, or one that has expired, passes the first task",
        "features/cleanup/checking.py",
        "        session.check_plan(source_plan)\n",
        "        pass\n",
        f"{_DECIDED}::test_a_plan_that_is_not_valid_here_is_refused_by_the_first_task",
    ),
    Mutation(
        "decision",
        "the connection's time of day counts for nothing",
        STEPS,
        "    limits = session.paced(limits)\n",
        "",
        f"{_DECIDED}::test_nothing_is_deleted_outside_of_the_connections_time_of_day",
    ),
    Mutation(
        "clusters",
        "a DAG takes any connection",
        PARAMS,
        '    allowed: dict[str, Any] = {"enum": [conn_id]}',
        "    allowed: dict[str, Any] = {}",
        f"{_DAGS}::test_no_run_leads_to_the_connection_of_other_dags",
    ),
    Mutation(
        "clusters",
        "the DAGs of rlmm_default take the connection of other DAGs",
        PARAMS,
        '        allowed = {"not": {"enum": others}} if others else {}',
        "        allowed = {}",
        f"{_DAGS}::test_no_run_leads_to_the_connection_of_other_dags",
    ),
    Mutation(
        "clusters",
        "all connections share their DAGs and assets",
        "connection_ids.py",
        '    return name if conn_id == DEFAULT_CONN_ID else f"{name}__{conn_id}"',
        "    return name",
        f"{_DAGS}::test_each_connection_has_dags_and_assets_of_its_own",
    ),
    Mutation(
        "clusters",
        "a connection may be called as a run's folder is cut",
        SETTINGS,
        '_CONN_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")',
        '_CONN_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")',
        f"{_DAGS}::test_a_wrong_setting_fails_when_the_file_is_parsed",
    ),
    switched_off(
        CLEANER,
        "approval",
        "a cleaning task asks for no approval",
        "        if read.approve_above is not None and not dry_run:",
        f"{_APPROVED}::test_a_task_that_was_marked_as_successful_or_skipped_has_approved_nothing",
    ),
    Mutation(
        "approval",
        "the cleaning tasks of the DAG ask for no approval",
        FACTORY,
        "        approve_above=approve_above,\n        execution_timeout",
        "        execution_timeout",
        f"{_DAGS}::test_whoever_deletes_asks_for_the_same_approval_as_was_asked_for",
    ),
    switched_off(
        APPROVAL,
        "approval",
        "the answer for another plan approves this one",
        "    if not answer.is_of(summary):",
        f"{_APPROVED}::test_a_plan_that_was_made_anew_needs_an_answer_of_its_own",
    ),
    Mutation(
        "approval",
        "the answer for a plan of this name approves all that it has become",
        APPROVAL,
        "        return (self.plan_id, self.plan_sha256) == (summary.plan_id, summary.sha256)",
        "        return self.plan_id == summary.plan_id",
        f"{_APPROVED}::test_a_plan_that_was_made_anew_needs_an_answer_of_its_own",
    ),
    switched_off(
        APPROVAL,
        "approval",
        "the answer of a page that showed another plan approves this one",
        "        if sha256 not in (None, self.plan_sha256):",
        f"{_APPROVED}::test_an_answer_by_a_page_that_showed_an_earlier_plan_is_refused",
    ),
    switched_off(
        APPROVAL,
        "approval",
        "a rejection approves",
        "    if not answer.approved:",
        f"{_APPROVED}::test_what_was_not_approved_is_left_and_the_report_says_who_rejected_it",
    ),
    Mutation(
        "approval",
        "no person approves",
        APPROVAL,
        "        return self.decision == APPROVE and self.decided_by is not None",
        "        return self.decision == APPROVE",
        f"{_APPROVED}::test_a_default_that_approves_is_no_person",
    ),
    Mutation(
        "approval",
        "an answer counts for the plan that lies there when it comes",
        APPROVING,
        "        request.check_plan(summary)\n",
        "",
        f"{_APPROVED}::test_an_answer_for_a_plan_that_has_changed_meanwhile_is_refused",
    ),
    Mutation(
        "approval",
        "a large number of small segments asks no person",
        APPROVAL,
        "            planned.segments > self.approve_above_segments or planned.bytes > self.approve_above_bytes",
        "            planned.segments > self.approve_above_segments and planned.bytes > self.approve_above_bytes",
        f"{_APPROVED}::test_a_larger_plan_asks",
    ),
    Mutation(
        "approval",
        "an answer is waited for beyond the expiry of the plan",
        APPROVING,
        "min(read.answer_within, summary.expires_at_ms - now_ms)",
        "read.answer_within",
        f"{_APPROVED}::test_nobody_is_asked_beyond_the_expiry_of_the_plan",
    ),
    Mutation(
        "approval",
        "a topic's name is Markdown in the request",
        "core/runs/approving.py",
        "    name = in_markdown(name_in_text(topic.topic))",
        "    name = topic.topic",
        f"{_APPROVED}::test_names_in_a_request_are_data",
    ),
    Mutation(
        "approval",
        "the report does not say that a plan was rejected",
        "features/cleanup/run_report.py",
        "    elif run.rejected is not None:",
        "    elif False:",
        f"{_APPROVED}::test_what_was_not_approved_is_left_and_the_report_says_who_rejected_it",
    ),
    Mutation(
        "approval",
        "a plan that has changed since a person was asked has a button on the page",
        "plugins/asked_plan.py",
        "    if (plan.plan_id, plan.sha256) != (asked.plan_id, asked.plan_sha256):",
        "    if False:",
        f"{_PAGES}::test_what_cannot_be_shown_cannot_be_approved_here",
    ),
    Mutation(
        "approval",
        "the plan of a scrub whose topics cannot be told has a button on the page",
        "plugins/asked_plan.py",
        "        found = scrubbed_topics(work_uri, artifact, plan, SHOWN_TOPICS)",
        '        return (), 0, ""',
        f"{_PAGES}::test_topics_of_a_scrub_that_cannot_be_told_are_said",
    ),
    Mutation(
        "approval",
        "a real run that the page starts with raised limits asks nobody",
        "plugins/raised_limits.py",
        '        conf = {**made.conf, **asks, "dry_run": False}',
        '        conf = {**made.conf, "dry_run": False}',
        f"{_PAGES}::test_a_dry_run_with_raised_limits_leads_to_a_real_run_that_asks",
    ),
    Mutation(
        "approval",
        "the form of a plan that is too large starts a run of the kind that was refused",
        "plugins/raised_limits.py",
        '        conf = {**made.conf, "dry_run": True}',
        "        conf = dict(made.conf)",
        f"{_PAGES}::test_a_plan_that_is_too_large_has_a_form_for_a_dry_run",
    ),
    Mutation(
        "approval",
        "who may only read gets the form of a plan that is too large",
        "plugins/raised_limits.py",
        " or not rights.may_trigger(made.run.dag_id)",
        "",
        f"{_PAGES}::test_a_plan_that_is_too_large_has_a_form_for_a_dry_run",
    ),
]
