# SPDX-License-Identifier: Apache-2.0
"""Mutations of runs that are for some topics only."""

from __future__ import annotations

from tests.mutations.mutation import CLEANER, PLANNER, Mutation

ONLY = "core/world/only.py"
CHOSEN_OF_A_SCRUB = "features/scrub/scrub_plan.py"

_ONLY = "core/world/test_only.py"
_CLEANUP = "features/cleanup/test_only.py"
_SCRUB = "features/scrub/test_scrub_plan.py"

NARROWED = [
    Mutation(
        "only",
        "a list without an entry is all topics",
        ONLY,
        "        if not self.entries:\n            raise",
        "        if False:\n            raise",
        f"{_ONLY}::test_nothing_is_not_all_topics",
    ),
    Mutation(
        "only",
        "a pattern chooses a topic whose id happens to fit it",
        "core/world/topic_entries.py",
        "    return topic_id in entries or first_match(entries, names) is not None",
        "    return first_match(entries, (topic_id, *names)) is not None",
        f"{_ONLY}::test_names_patterns_and_ids_choose",
    ),
    Mutation(
        "only",
        "a pattern that fits no name is taken for one that does, by an id",
        "core/world/topic_entries.py",
        "any(fnmatchcase(name, entry) for name in self.names)",
        "any(fnmatchcase(name, entry) for name in self.names | self.ids)",
        f"{_ONLY}::test_entries_that_no_topic_answers_to_are_named_with_what_may_be_meant",
    ),
    Mutation(
        "only",
        "a plan takes what is named by it or by the run",
        ONLY,
        "return named and self.only.chooses(tip, names)",
        "return named or self.only.chooses(tip, names)",
        f"{_ONLY}::test_a_plan_and_what_a_run_is_for_narrow_together",
    ),
    Mutation(
        "only",
        "the planner plans other topics, too",
        PLANNER,
        "if h.deletion_under_way() and chosen.takes(key, topic.names_of(metadata_partition, key.topic_id))",
        "if h.deletion_under_way()",
        f"{_CLEANUP}::test_only_these_are_planned_and_shares_are_those_of_the_cluster",
    ),
    Mutation(
        "only",
        "the cleaner works on other topics, too",
        CLEANER,
        "return [h for h in under_way if self.only.chooses(h.topic_id_partition, names[h.topic_id_partition.topic_id])]",
        "return under_way",
        f"{_CLEANUP}::test_only_these_are_cleaned_though_others_are_due_too",
    ),
    Mutation(
        "only",
        "a plan does not say which topics it is for",
        PLANNER,
        "only=chosen.only.narrowed_to",
        "only=()",
        f"{_CLEANUP}::test_only_these_are_cleaned_though_others_are_due_too",
    ),
    Mutation(
        "only",
        "a scrub plans objects of other topics, too",
        CHOSEN_OF_A_SCRUB,
        "self._rows.append(rows if self._choice.only.is_all else rows.filter(self._are_wanted(rows)))",
        "self._rows.append(rows)",
        f"{_SCRUB}::test_a_run_for_other_topics_plans_nothing_of_this_one_and_counts_it_all_the_same",
    ),
]
