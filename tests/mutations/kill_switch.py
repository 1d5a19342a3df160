# SPDX-License-Identifier: Apache-2.0
"""Mutations that break the kill switch."""

from __future__ import annotations

from tests.mutations.mutation import BATCHES, CLEANER, Mutation, switched_off

SWITCH = "hooks/kill_switch.py"
SESSION = "core/runs/cleaner_session.py"
PROMISE = "kill switch"

KILL_SWITCH = [
    switched_off(
        BATCHES,
        PROMISE,
        "a run that is under way does not ask",
        "            if (stopped := gate.why_stopped()) is not None:",
        "features/cleanup/test_kill_switch.py::test_a_batch_that_began_is_ended_and_the_next_run_goes_on",
    ),
    switched_off(
        CLEANER,
        PROMISE,
        "the root is stamped though the switch is on",
        "        if histories and (why := gate.why_stopped()) is not None:",
        "features/cleanup/test_kill_switch.py::test_a_run_that_is_stopped_from_the_start_writes_and_deletes_nothing",
    ),
    switched_off(
        "features/scrub/scrub_cleaner.py",
        PROMISE,
        "a scrub's deletion does not ask",
        "            if (why := self._gate.why_stopped()) is not None:",
        "features/scrub/test_scrub_plan.py::test_the_kill_switch_ends_a_deletion_between_two_batches_and_the_next_scrub_goes_on",
    ),
    switched_off(
        "core/world/gate.py",
        "what each writer asks",
        "a question is answered that its writer does not declare",
        "        if question not in self.writer.asks:",
        "core/world/test_gate.py::test_it_answers_no_question_that_the_writer_has_not_declared",
    ),
    switched_off(
        "core/world/gate.py",
        "what each writer asks",
        "the gate of a dry run is that of a real one",
        "        if why is not None and self.is_dry:",
        "core/world/test_gate.py::test_for_a_dry_run_it_is_open_and_says_what_would_close_it",
    ),
    Mutation(
        PROMISE,
        "the marker does not ask",
        "features/cleanup/steps.py",
        "    session.require_running(dry_run=dry_run)\n    work = session.work_of(source_plan)\n",
        "    work = session.work_of(source_plan)\n",
        "airflow/hooks/test_kill_switch.py::test_a_real_run_ends_before_its_first_event_and_says_how_to_put_it_back",
    ),
    switched_off(
        SWITCH,
        PROMISE,
        "an API server that does not answer knows no switch",
        '    if not isinstance(answer, ErrorResponse) or answer.error.name != "VARIABLE_NOT_FOUND":',
        "airflow/hooks/test_kill_switch.py::test_an_api_server_that_does_not_say_that_there_is_none_stops",
    ),
    switched_off(
        SWITCH,
        PROMISE,
        "the environment may freeze it",
        "    if variable in os.environ:",
        "airflow/hooks/test_kill_switch.py::test_an_environment_variable_that_freezes_it_stops_whatever_it_says",
    ),
    Mutation(
        PROMISE,
        "what cannot be read is off",
        SESSION,
        '        return cannot_be_told(access.stop_switch, f"{type(e).__name__}, see the log")',
        "        return None",
        "airflow/hooks/test_kill_switch.py::test_a_variable_that_cannot_be_read_stops_and_tells_no_secret",
    ),
    Mutation(
        PROMISE,
        "it is read once only",
        SESSION,
        "        if not read or time.monotonic() - read[0][0] > STOP_AGE_S:",
        "        if not read:",
        "airflow/hooks/test_kill_switch.py::test_it_is_read_again_after_five_seconds_and_not_before",
    ),
    Mutation(
        PROMISE,
        "a stopped run is green",
        "core/plans/refusals.py",
        "        return self not in (RefusalKind.WAITING, ",
        "        return self not in (RefusalKind.STOPPED, RefusalKind.WAITING, ",
        "features/cleanup/test_kill_switch.py::test_a_run_that_is_stopped_from_the_start_writes_and_deletes_nothing",
    ),
    Mutation(
        PROMISE,
        "a word that sounds like off is off",
        "core/world/kill_switch.py",
        "    if text is None:",
        '    if text is None or text.strip().lower() in {"no", "off", "0", "false"}:',
        "core/world/test_kill_switch.py::test_whatever_it_says_stops_and_is_the_reason",
    ),
    Mutation(
        PROMISE,
        "an empty one is off",
        "core/world/kill_switch.py",
        "    if text is None:",
        "    if not text:",
        "core/world/test_kill_switch.py::test_an_empty_one_stops_too",
    ),
    Mutation(
        PROMISE,
        "what the command writes hides it from the pages",
        "plugins/clusters.py",
        "        told = [self.inventory, *reversed(self.runs), self.leaders]\n",
        "        told = [self.inventory]\n",
        "airflow/plugins/test_cluster_pages.py::test_a_survey_of_the_command_hides_neither_switch_nor_buttons",
    ),
    Mutation(
        PROMISE,
        "a page shows none where it was not told of a connection",
        "plugins/clusters.py",
        "        return self.connections or connections()\n",
        "        return self.connections\n",
        "airflow/plugins/test_cluster_pages.py::test_where_only_the_command_has_told_of_a_cluster_the_switch_of_any_connection_is_shown",
    ),
    Mutation(
        "kill switch",
        "the page of a document does not say it",
        "plugins/serving.py",
        "    return replace(shell_of(request), cluster_id=known, active=active, stopped=stopped)",
        "    return replace(shell_of(request), cluster_id=known, active=active)",
        "airflow/plugins/test_pages.py::test_every_document_says_that_the_kill_switch_is_on",
    ),
]
