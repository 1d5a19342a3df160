# SPDX-License-Identifier: Apache-2.0
"""Mutations of what is said of a run and of a cluster: what was not seen, what is left, what helps."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

SURVEY = "lifecycle/survey.py"
ORPHANS = "lifecycle/inventory.py"
READING_COMMANDS = "cli/reading.py"
WHOLE_CHECK = "session/whole_check.py"
OVERVIEW = "plugins/overview.py"

_HIDDEN = "lifecycle/test_survey.py::test_what_nobody_may_describe_is_a_row_of_its_own_and_no_zero"
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
        "what nobody can tell is no row of the orphans",
        ORPHANS,
        'if row["state"] != SurveyedState.LIVING.value',
        'if row["state"] not in (SurveyedState.LIVING.value, SurveyedState.UNSEEN.value)',
        _HIDDEN,
    ),
    Mutation(
        "I21",
        "what lies in a metadata partition out of service is judged as if it could be read",
        SURVEY,
        "        _out_of_service(views, limits.allowed_quarantine),\n",
        "        {},\n",
        "lifecycle/test_survey.py::"
        "test_what_lies_in_a_metadata_partition_out_of_service_cannot_be_told_and_the_rest_is",
    ),
    Mutation(
        "I21",
        "a command that did not see everything ends green",
        READING_COMMANDS,
        "    return ExitCode.NEEDS_A_PERSON\n",
        "    return ExitCode.DONE\n",
        _AS_RED,
    ),
    Mutation(
        "I21",
        "the check is green where topics are hidden",
        WHOLE_CHECK,
        "looked.good and not any(unseen)",
        "looked.good",
        _AS_RED,
    ),
    switched_off(
        OVERVIEW,
        "I21",
        "a page shows 0 orphans where it cannot tell",
        "    if totals.why_not_all_seen:",
        "airflow/test_cluster_pages.py",
    ),
]
