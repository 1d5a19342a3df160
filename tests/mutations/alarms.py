# SPDX-License-Identifier: Apache-2.0
"""Mutations of what calls a person: the dead-man alarm, the message, the metrics."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

DEAD_MAN = "overview/dead_man.py"
WATCHED = "observability/dead_man.py"
NEWS = "overview/run_news.py"
NOTIFIER = "notifications/remote_log.py"
FAILURES = "notifications/failures.py"
METRICS = "overview/run_metrics.py"

ALARMS = [
    Mutation(
        "I12",
        "a run from the future silences the alarm until then",
        DEAD_MAN,
        "ours and believed and counts and not run.only",
        "ours and counts and not run.only",
        "overview/test_dead_man.py::test_what_is_no_green_real_run_of_this_cleaner_does_not_count",
    ),
    Mutation(
        "I12",
        "a run of another cluster or connection silences the alarm",
        DEAD_MAN,
        "ours and believed and counts and not run.only",
        "believed and counts and not run.only",
        "overview/test_dead_man.py::test_what_is_no_green_real_run_of_this_cleaner_does_not_count",
    ),
    Mutation(
        "I12",
        "a run for some topics silences the alarm of the cluster",
        DEAD_MAN,
        "ours and believed and counts and not run.only",
        "ours and believed and counts",
        "overview/test_dead_man.py::test_what_is_no_green_real_run_of_this_cleaner_does_not_count",
    ),
    Mutation(
        "I12",
        "a run for some topics tells when the cluster was last cleaned",
        METRICS,
        "    if green and not summary.only:",
        "    if green:",
        "overview/test_run_metrics.py::test_a_run_for_some_topics_leaves_it_too",
    ),
    Mutation(
        "I12",
        "a survey of some topics tells the numbers of the cluster",
        "operators/survey.py",
        "        if narrowed.is_all:",
        "        if True:",
        "airflow/operators/test_run_summaries.py::test_a_survey_of_some_topics_tells_no_number_of_the_cluster",
    ),
    Mutation(
        "I12",
        "dry runs silence the alarm where runs are to be real",
        DEAD_MAN,
        " and not (real and run.dry_run)",
        "",
        "overview/test_dead_man.py::test_what_is_no_green_real_run_of_this_cleaner_does_not_count",
    ),
    Mutation(
        "I12",
        "a connection without any green run is waited for for ever",
        DEAD_MAN,
        "    if now_ms - watch.since_ms > after_ms:",
        "    if now_ms < watch.since_ms:",
        "overview/test_dead_man.py::test_without_any_run_the_days_are_counted_from_the_first_look",
    ),
    Mutation(
        "I12",
        "the note of another cluster tells since when one is watched",
        WATCHED,
        "    if (found.cluster_id, found.connection) != (new.cluster_id, new.connection):",
        "    if False:",
        "airflow/operators/test_dead_man_operator.py::test_the_note_of_another_cluster_rings",
    ),
    Mutation(
        "I12",
        "each look is the first one",
        WATCHED,
        "    return found",
        "    return new",
        "airflow/operators/test_dead_man_operator.py::test_the_first_look_is_noted_once",
    ),
    Mutation(
        "secrets",
        "words of others' errors are sent to a chat",
        FAILURES,
        "isinstance(error, RlmmError | AirflowException)",
        "error is not None",
        "airflow/notifications/test_notifications.py::test_words_of_others_in_an_error_stay_in_the_log",
    ),
    Mutation(
        "secrets",
        "a topic's name is markup in a chat, and calls a whole channel",
        NEWS,
        "printable(text, limit).translate(_INERT)",
        "printable(text, limit)",
        "overview/test_run_news.py::test_names_of_others_are_no_markup_and_call_nobody",
    ),
    Mutation(
        "I12",
        "a notifier that fails keeps the others from being called",
        NOTIFIER,
        "                failed += 1",
        "                raise",
        "airflow/notifications/test_notifications.py::test_one_that_fails_keeps_no_other_from_being_called",
    ),
    Mutation(
        "I12",
        "the summary of another run is taken for this one's",
        NOTIFIER,
        "        if (run.dag_id, run.run_id) != (dag_id, run_id):",
        "        if False:",
        "airflow/notifications/test_notifications.py::test_a_summary_that_is_not_the_runs_is_not_believed",
    ),
    Mutation(
        "I12",
        "what a dry run would delete is told as deleted",
        METRICS,
        "0 if summary.dry_run else getattr(summary.deleted, name)",
        "getattr(summary.deleted, name)",
        "overview/test_run_metrics.py::test_a_dry_run_deletes_nothing_and_is_no_real_success",
    ),
    Mutation(
        "lineage",
        "a refusal of the brokers holds the task's clients beyond its end, and OpenLineage's child hangs by them",
        "core/log/kafka/client.py",
        "            error = future.exception()\n            outcomes[key] = error.args[0] if isinstance(error, KafkaException) else future.result()\n",
        "            try:\n"
        "                outcomes[key] = future.result()\n"
        "            except KafkaException as error:\n"
        "                outcomes[key] = error.args[0]\n",
        "core/log/kafka/test_client.py::test_a_refusal_holds_no_frame_with_its_clients",
    ),
]
