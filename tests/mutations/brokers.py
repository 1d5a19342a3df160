# SPDX-License-Identifier: Apache-2.0
"""Mutations of what is said of brokers: their versions, and the bugs that these have."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

VERSIONS = "core/log/broker_versions.py"
KNOWN_BUGS = "features/doctor/known_bugs.py"
_BUGS = "features/doctor/test_known_bugs.py::"
_WITHHELD = f"{_BUGS}test_a_broker_that_withholds_or_does_not_answer_is_never_taken_as_fine"

BROKERS = [
    Mutation(
        "I21",
        "a broker of an unknown version has no bug",
        VERSIONS,
        "        return self.at_least is not None and self.at_least >= version\n",
        "        return self.at_least is None or self.at_least >= version\n",
        _WITHHELD,
    ),
    switched_off(
        VERSIONS,
        "I21",
        "a broker that shows a choice of its settings is as old as the setting that it does not show",
        "    if not known:",
        "core/log/test_broker_versions.py::test_who_refuses_or_shows_a_choice_only_has_no_known_version",
    ),
    Mutation(
        "I21",
        "one newer broker speaks for all",
        KNOWN_BUGS,
        "    others = {broker: version for broker, version in versions.items() if not version.has_all_of(bug.fixed_in)}\n",
        "    newer = any(version.has_all_of(bug.fixed_in) for version in versions.values())\n"
        "    others = {} if newer else versions\n",
        f"{_BUGS}test_one_older_broker_is_enough",
    ),
    switched_off(
        KNOWN_BUGS,
        "I21",
        "topics whose settings may not be described are concerned by nothing",
        "    if served.unknown:",
        f"{_BUGS}test_where_the_topics_settings_may_not_be_described_it_says_that_it_does_not_know",
    ),
]
