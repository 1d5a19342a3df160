# SPDX-License-Identifier: Apache-2.0
"""Mutations of what one try, pass or look owes to another one."""

from __future__ import annotations

from tests.mutations.mutation import CLEANER, PUBLISHING, Mutation, switched_off

_PUBLISHING = "features/cleanup/test_publishing.py"
_SCRUB = "airflow/operators/test_scrub_operators.py"
_CONTENTS = "airflow/operators/test_contents_operator.py"
_WHY = "cli/test_why.py"

SECOND_TRIES = [
    Mutation(
        "I18",
        "an event by hand finishes a partition by a log that was read before the listing",
        PUBLISHING,
        "        read_until = replay.end\n        event, proof = self._judged(given, replay, listed)\n",
        "        read_until = replay.end\n",
        f"{_PUBLISHING}::test_what_comes_while_storage_is_listed_is_read_before_a_partition_is_finished",
    ),
    Mutation(
        "I18",
        "an event by hand finishes a partition though a record that cannot be applied came after the listing",
        PUBLISHING,
        "self.limits.allowed_quarantine, read_until)) is not None:",
        "self.limits.allowed_quarantine, 2**63)) is not None:",
        f"{_PUBLISHING}::test_what_comes_while_storage_is_listed_is_read_before_a_partition_is_finished",
    ),
    Mutation(
        "I10",
        "a run that sees that the log has lost its end takes the evidence away",
        CLEANER,
        "        knows_loss = lost is not None or not lost_end\n",
        "        knows_loss = True\n",
        "features/cleanup/test_shrinking_log.py::test_it_stays_red_until_the_log_has_grown_again",
    ),
    Mutation(
        "I15",
        "a second try of a scrub's deletion forgets what the first one has deleted",
        "features/scrub/steps.py",
        "        if not dry_run:\n            _add_earlier_try(report, uri)\n",
        "",
        f"{_SCRUB}::test_a_second_try_adds_up_with_the_first_and_keeps_what_the_audit_log_lacks",
    ),
    Mutation(
        "I15",
        "a second try of a scrub's deletion forgets what the audit log lacks",
        "features/scrub/scrub_cleaner.py",
        "r.kind in (RefusalKind.REPORT, RefusalKind.AUDIT) and",
        "False and",
        f"{_SCRUB}::test_a_second_try_adds_up_with_the_first_and_keeps_what_the_audit_log_lacks",
    ),
    switched_off(
        "operators/scrub.py",
        "I12",
        "a real scrub whose deletion was skipped ends green",
        "        elif plan is not None and is_real and plan.file.rows and deletion.plan_sha256 != plan.sha256:",
        f"{_SCRUB}::test_a_deletion_that_was_skipped_or_marked_by_hand_is_red_and_no_dry_run",
    ),
    Mutation(
        "I12",
        "a real scrub whose deletion was skipped is told as a dry run",
        "operators/scrub.py",
        "deletion_of(uri, dry_run=not is_real)",
        "deletion_of(uri)",
        f"{_SCRUB}::test_a_deletion_that_was_skipped_or_marked_by_hand_is_red_and_no_dry_run",
    ),
    Mutation(
        "I12",
        "what a dry pass would have deleted is added to the real one",
        "features/cleanup/steps.py",
        "if earlier and not earlier.dry_run else report",
        "if earlier else report",
        "airflow/operators/test_operators.py::test_what_a_dry_pass_of_a_run_would_have_deleted_is_not_added_to_the_real_one",
    ),
    Mutation(
        "contents",
        "what cannot be judged comes first in every sample",
        "features/contents/steps.py",
        "if look.outcome is not Outcome.GONE:",
        "if look.outcome.was_looked_at:",
        f"{_CONTENTS}::test_what_cannot_be_judged_has_its_turn_in_samples_too",
    ),
    Mutation(
        "contents",
        "a log without its beginning is verified in green",
        "features/contents/steps.py",
        "    lost = any(view.lost_beginning is not None for view in views)",
        "    lost = any(view.lost is not None for view in views)",
        f"{_CONTENTS}::test_a_log_without_its_beginning_needs_a_person_though_all_that_it_names_is_right",
    ),
    Mutation(
        "I12",
        "why says nothing of a lost beginning",
        "features/survey/why_steps.py",
        "    if view.lost_beginning is not None:",
        "    if view.lost is not None:",
        f"{_WHY}::test_a_log_without_its_beginning_may_have_said_something_else",
    ),
    switched_off(
        "features/reading/remote_copies_steps.py",
        "copied",
        "a topic without partitions is copied whole",
        "    if not offsets:",
        "airflow/operators/test_remote_log_operators.py::test_a_topic_of_which_brokers_tell_no_partition_is_waited_for",
    ),
    switched_off(
        "hooks/spark_master.py",
        "Spark",
        "a master that stands by says that a driver is gone",
        '        if answer.get("message"):',
        "airflow/operators/test_spark_on_cluster.py::test_a_master_that_stands_by_or_recovers_tells_nothing_of_a_driver",
    ),
    Mutation(
        "reading",
        "a search by time passes over what a later leader has left of a segment",
        "features/reading/reader.py",
        "                    if start < end:",
        "                    if start < end == metadata.end_offset + 1:",
        "features/reading/test_reader_and_the_world.py::"
        "test_a_time_is_looked_for_in_what_a_later_leader_has_left_of_a_segment_and_no_further",
    ),
    Mutation(
        "reading",
        "a search by time finds what a later leader wrote anew",
        "features/reading/timestamp_search.py",
        " & (offset < wanted.end)",
        "",
        "features/reading/test_reader_and_the_world.py::"
        "test_a_time_is_looked_for_in_what_a_later_leader_has_left_of_a_segment_and_no_further",
    ),
    Mutation(
        "approval",
        "the answer to an earlier request hides the one that waits",
        "plugins/run_view.py",
        "            answer = None  # to an earlier request: the task was cleared, and asks again",
        "            pass",
        "airflow/plugins/test_cluster_pages.py::test_an_answer_to_an_earlier_request_hides_no_request",
    ),
]
