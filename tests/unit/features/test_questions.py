# SPDX-License-Identifier: Apache-2.0
"""What each writer declares that it asks: as the page prints it, and each a test that shows the writer obey."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.world.questions import Question, Writer
from airflow_provider_rlmm.features.archiving.questions import RESTORE
from airflow_provider_rlmm.features.cleanup.questions import CLEANER, MARKER
from airflow_provider_rlmm.features.copying.questions import COPIER
from airflow_provider_rlmm.features.scrub.questions import SCRUB

TESTS = Path(__file__).parents[2]
WRITERS = (CLEANER, SCRUB, MARKER, COPIER, RESTORE)

_CLEANUP, _SCRUB = "unit/features/cleanup", "unit/features/scrub"
_COPIER, _RESTORING = "unit/features/copying/test_copier.py", "unit/features/archiving/test_restoring_session.py"
_HOLD_NAMES = "unit/airflow/operators/test_hold_names.py"

PROOFS = {
    CLEANER.name: {
        Question.SWITCH: f"{_CLEANUP}/test_kill_switch.py::test_a_batch_that_began_is_ended_and_the_next_run_goes_on",
        Question.HOLD: f"{_CLEANUP}/test_hold.py::test_a_hold_that_begins_during_the_run_ends_the_work_before_the_next_batch",
        Question.TIME_OF_DAY: f"{_CLEANUP}/test_limits_of_deletion.py::"
        "test_when_it_closes_the_run_ends_between_two_batches_and_the_next_goes_on",
        Question.PACE: f"{_CLEANUP}/test_limits_of_deletion.py::test_between_batches_it_rests_so_that_the_rate_is_kept",
        Question.CLUSTER: f"{_CLEANUP}/test_shrinking_log.py::"
        "test_a_cluster_that_is_swapped_between_two_batches_ends_the_run",
        Question.ABSENCE: f"{_CLEANUP}/test_cleaner.py::test_a_topic_that_comes_back_stops_before_the_next_batch",
        Question.DISKLESS: f"{_CLEANUP}/test_cleaner.py::"
        "test_a_topic_without_disks_that_gets_the_name_stops_before_the_next_batch",
        Question.ARCHIVE: "unit/features/archiving/test_archiving.py::"
        "test_an_archive_that_goes_while_it_is_deleted_by_ends_the_deletion",
        Question.ROOT: f"{_CLEANUP}/test_cleaner_refusals.py::test_a_root_that_goes_away_stops_the_run",
    },
    SCRUB.name: {
        Question.SWITCH: f"{_SCRUB}/test_scrub_plan.py::"
        "test_the_kill_switch_ends_a_deletion_between_two_batches_and_the_next_scrub_goes_on",
        Question.HOLD: f"{_HOLD_NAMES}::test_a_hold_that_comes_after_the_plan_of_a_scrub_keeps_its_objects",
        Question.TIME_OF_DAY: f"{_SCRUB}/test_scrub_plan.py::"
        "test_nothing_goes_outside_the_window_and_no_faster_than_it_may",
        Question.PACE: f"{_SCRUB}/test_scrub_plan.py::test_nothing_goes_outside_the_window_and_no_faster_than_it_may",
        Question.CLUSTER: f"{_SCRUB}/test_scrub_plan.py::test_another_cluster_is_noticed",
        Question.ABSENCE: f"{_SCRUB}/test_unnamed_objects.py::test_a_marker_that_is_void_by_now_keeps_what_the_plan_names",
        Question.DISKLESS: f"{_SCRUB}/test_scrub_plan.py::test_what_lies_under_the_name_of_a_topic_without_disks_stays",
        Question.ROOT: f"{_SCRUB}/test_scrub_plan.py::test_a_place_that_is_not_shown_to_be_the_clusters_is_left",
    },
    MARKER.name: {
        Question.SWITCH: "unit/airflow/hooks/test_kill_switch.py::"
        "test_a_real_run_ends_before_its_first_event_and_says_how_to_put_it_back",
        Question.HOLD: f"{_HOLD_NAMES}::test_a_held_topic_is_not_marked_and_a_marker_that_it_has_stays",
        Question.CLUSTER: f"{_CLEANUP}/test_shrinking_log.py::"
        "test_a_cluster_that_answers_with_another_metadata_topic_ends_the_run_before_anything_is_done",
        Question.ABSENCE: f"{_CLEANUP}/test_marker.py::test_a_topic_that_only_describing_finds_is_not_marked",
        Question.DISKLESS: f"{_CLEANUP}/test_marker.py::"
        "test_an_id_whose_name_a_topic_without_disks_has_now_is_refused_by_name",
        Question.ROOT: "unit/airflow/operators/test_scrub_operators.py::"
        "test_a_living_copy_below_a_prefix_that_the_connection_does_not_name_refuses_every_step",
    },
    COPIER.name: {
        Question.SWITCH: f"{_COPIER}::test_the_kill_switch_ends_a_copy_within_a_segment",
        Question.HOLD: f"{_COPIER}::test_a_held_topic_is_refused",
        Question.PACE: "unit/features/copying/test_copy_pace.py::"
        "test_within_a_segment_it_waits_for_the_quota_and_asks_on_while_it_waits",
        Question.CLUSTER: f"{_COPIER}::test_a_leader_of_another_cluster_is_not_believed",
        Question.ABSENCE: f"{_COPIER}::test_a_topic_that_is_gone_is_archived_never_copied",
        Question.DISKLESS: f"{_COPIER}::test_a_topic_that_must_not_be_copied_is_refused",
        Question.LEADER: f"{_COPIER}::test_what_changes_while_a_segment_is_copied_has_it_taken_back",
        Question.ROOT: f"{_COPIER}::test_a_storage_that_lacks_the_newest_copy_is_not_the_brokers",
    },
    RESTORE.name: {
        Question.SWITCH: f"{_RESTORING}::test_the_kill_switch_stops_a_restore",
        Question.CLUSTER: f"{_RESTORING}::test_another_writer_and_another_topic_of_the_name_are_noticed",
        Question.ARCHIVE: f"{_RESTORING}::test_a_damaged_archive_is_not_restored",
    },
}
"""Writer → question that it declares → a test in which the answer is no, and it obeys."""


def test_the_page_prints_the_declarations_cell_by_cell() -> None:
    page = (TESTS.parent / "docs" / "proofs.md").read_text()
    section = page.partition("### What each writer asks")[2].partition("\n##")[0]
    printed = [line for line in section.splitlines() if line.startswith("|")]
    assert printed == _table()


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_each_writer_speaks_of_every_question_once(writer: Writer) -> None:
    assert writer.asks.keys() | writer.does_not_ask.keys() == set(Question)
    assert not writer.asks.keys() & writer.does_not_ask.keys()


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_a_test_shows_for_each_question_that_the_writer_obeys(writer: Writer) -> None:
    assert PROOFS[writer.name].keys() == writer.asks.keys()
    for proof in PROOFS[writer.name].values():
        file, _, function = proof.partition("::")
        assert re.search(rf"^def {function}\(", (TESTS / file).read_text(), re.MULTILINE), proof


def _table() -> list[str]:
    rows = ["| asks | " + " | ".join(writer.name for writer in WRITERS) + " |", "|---|" + "---|" * len(WRITERS)]
    return rows + [
        f"| {question.value} | " + " | ".join(writer.says_of(question) for writer in WRITERS) + " |"
        for question in Question
    ]
