# SPDX-License-Identifier: Apache-2.0
"""What people look at never harms what deletes, says nothing of another cluster, and believes no file for its name."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

PROGRESS, INVENTORIES, RUNS = "features/cleanup/progress.py", "overview/inventories.py", "overview/runs.py"
TABLES, FILES, HISTORY = "overview/tables.py", "features/survey/inventory_files.py", "operators/history.py"

SURVEY = "features/survey/survey.py"

_SURVEY = "features/survey/test_survey.py::"
_PROGRESS = "features/cleanup/test_progress.py::"
_INVENTORIES = "overview/test_inventories.py::"
_RUNS = "overview/test_runs.py::"
_SUMMARIES = "airflow/operators/test_run_summaries.py::"
_REFUSED = f"{_INVENTORIES}test_what_is_not_the_file_of_a_survey_is_refused"

WATCHED_RUNS = [
    switched_off(
        SURVEY,
        "watching",
        "a survey calls a topic gone that may not be described",
        "    if seen.presence is not Presence.ABSENT:",
        f"{_SURVEY}test_what_keeps_a_topic_is_said",
    ),
    switched_off(
        SURVEY,
        "watching",
        "a survey calls a held topic eligible",
        "    if held is not None:",
        f"{_SURVEY}test_what_keeps_a_topic_is_said",
    ),
    switched_off(
        SURVEY,
        "watching",
        "a survey calls eligible what planner and cleaner refuse",
        "    if refusal is not None and refusal.kind.needs_person:",
        f"{_SURVEY}test_what_keeps_a_topic_is_said",
    ),
    Mutation(
        "watching",
        "a run that was refused is surveyed all the same",
        "operators/survey.py",
        "        except PlanError:",
        "        except KeyError:",
        "airflow/operators/test_operators.py::test_a_run_that_was_refused_is_not_surveyed",
    ),
    Mutation(
        "watching",
        "a progress that cannot be written ends the cleaning",
        PROGRESS,
        "        except Exception as e:",
        "        except MemoryError as e:",
        f"{_PROGRESS}test_what_cannot_be_written_ends_nothing_and_is_not_tried_at_every_batch",
    ),
    Mutation(
        "watching",
        "a store that hangs is asked at every batch",
        PROGRESS,
        "AFTER_A_FAILURE_MS = 60_000",
        "AFTER_A_FAILURE_MS = 0",
        f"{_PROGRESS}test_what_cannot_be_written_ends_nothing_and_is_not_tried_at_every_batch",
    ),
    Mutation(
        "watching",
        "a run is green though its summary is not kept",
        HISTORY,
        '        return f"The summary of this run is not kept ({type(e).__name__}: {e}); {_WHAT_TO_DO}."',
        '        return ""',
        f"{_SUMMARIES}test_a_summary_that_cannot_be_kept_makes_the_run_red_and_loses_nothing",
    ),
    Mutation(
        "watching",
        "what another run surveyed is said to be of this one",
        "overview/history.py",
        "    return found if (found.cluster_id, found.artifact) == (cluster_id, artifact) else None",
        "    return found",
        f"{_SUMMARIES}test_what_another_run_surveyed_is_not_said_to_be_of_this_one",
    ),
    switched_off(
        "overview/documents.py",
        "watching",
        "the inventory of another cluster is shown",
        "    if cluster_folder(found.cluster_id) != folder:",
        f"{_INVENTORIES}test_the_inventory_of_another_cluster_is_refused",
    ),
    switched_off(
        RUNS,
        "watching",
        "the run of another cluster is shown",
        "        if cluster_folder(run.cluster_id) != folder:",
        f"{_RUNS}test_a_summary_that_cannot_be_read_is_shown_as_one_and_hides_no_other",
    ),
    switched_off(
        TABLES,
        "watching",
        "a table is believed for its name",
        '            if hashlib.file_digest(cast("Any", file), "sha256").hexdigest() != expected.sha256:',
        _REFUSED,
    ),
    Mutation(
        "watching",
        "a text that all rows share is made for each of them",
        "core/base/bounded_parquet.py",
        "read_dictionary=_texts(schema), ",
        "",
        f"{_INVENTORIES}test_a_large_text_that_all_rows_share_is_there_once",
    ),
    Mutation(
        "watching",
        "a survey that was overtaken takes the place of a newer one",
        FILES,
        "    if named is None or not created_at_ms <= named < created_at_ms + _UNFINISHED_FOR_MS:",
        "    if True:",
        "features/survey/test_inventory_files.py::test_a_survey_that_was_overtaken_does_not_take_the_place_of_a_newer_one",
    ),
    Mutation(
        "watching",
        "a survey removes what another one is writing",
        FILES,
        "            if name not in kept and not is_under_way:",
        "            if name not in kept:",
        "features/survey/test_inventory_files.py::"
        "test_what_another_survey_is_writing_is_left_alone_and_what_a_killed_one_left_is_not",
    ),
]
