# SPDX-License-Identifier: Apache-2.0
"""Mutations of what is known of brokers: their versions, the bugs that these have, and topics that only some can have."""

from __future__ import annotations

from tests.mutations.mutation import LOOK, Mutation, switched_off

VERSIONS = "core/log/broker_versions.py"
KNOWN_BUGS = "features/doctor/known_bugs.py"
ADMIN = "core/log/kafka/admin.py"
SETTINGS = "core/log/metadata_settings.py"
PREFLIGHT = "features/doctor/preflight.py"
_BUGS = "features/doctor/test_known_bugs.py::"
_WITHHELD = f"{_BUGS}test_a_broker_that_withholds_or_does_not_answer_is_never_taken_as_fine"
_PREFLIGHT = "features/doctor/test_preflight.py::"
_HEALTH = "core/log/kafka/test_health.py::"
_MAY_BE = (
    "core/log/kafka/test_admin.py::"
    "test_a_topic_that_may_not_be_described_is_none_only_where_brokers_do_not_know_the_setting"
)

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
    # -- the settings of the metadata topic
    switched_off(
        SETTINGS,
        "I22",
        "advises to set the policy back under brokers that write keys",
        "    if writers.key_seen is not None:",
        f"{_HEALTH}test_where_keys_were_read_it_is_left_as_it_is_whatever_the_versions_say",
    ),
    Mutation(
        "I22",
        "advises to set the policy back though some brokers may write keys",
        SETTINGS,
        "    if writers.versions and not writers.may_write_keys:\n",
        "    if writers.versions:\n",
        f"{_HEALTH}test_where_brokers_may_write_keys_their_version_comes_first",
    ),
    Mutation(
        "I22",
        "a key that names another record has the doctor leave the policy as it is",
        PREFLIGHT,
        "            if key is not None and event is not None and key.names(event):\n",
        "            if key is not None and event is not None:\n",
        f"{_PREFLIGHT}test_it_depends_on_the_keys_that_were_read_and_anybody_may_write_one",
    ),
    Mutation(
        "I21",
        "the copier's records without a key are no program's",
        PREFLIGHT,
        "_OURS: Final = (OWN_BROKER_ID, COPIER_BROKER_ID)\n",
        "_OURS: Final = (OWN_BROKER_ID,)\n",
        f"{_PREFLIGHT}test_records_without_a_key_are_counted_with_the_newest_time_and_ours_among_them",
    ),
    switched_off(
        "features/doctor/topic_settings.py",
        "I21",
        "a short retention of the metadata topic is right where the topics' retention may not be seen",
        "        if served.unknown and not is_kept_for_ever(settings):",
        f"{_PREFLIGHT}test_what_may_not_be_described_is_said_and_no_zero",
    ),
    # -- topics without disks
    Mutation(
        "I7",
        "a topic that is gone is deleted though one without disks has its name",
        LOOK,
        "    return {**observations, **told}\n",
        "    return observations\n",
        "features/cleanup/test_cleaner.py::test_a_topic_without_disks_that_gets_the_name_stops_before_the_next_batch",
    ),
    Mutation(
        "I7",
        "of several ids with the name of a topic without disks one is told apart",
        LOOK,
        "        if name in diskless\n    }\n",
        "        if name in diskless\n    }\n    told = dict(list(told.items())[-1:])\n",
        "core/world/test_cluster_look.py::test_every_id_is_told_apart_whose_name_a_topic_without_disks_has",
    ),
    Mutation(
        "I13",
        "a scrub deletes what lies under the name of a topic without disks",
        "features/scrub/scrub_cleaner.py",
        '        return [row for row in rows if row["topic"] not in diskless]\n',
        "        return list(rows)\n",
        "features/scrub/test_scrub_plan.py::test_what_lies_under_the_name_of_a_topic_without_disks_stays",
    ),
    switched_off(
        "features/copying/rules.py",
        "may copy",
        "copies a topic without disks",
        "    if configs.diskless_enable:",
        "features/copying/test_copier.py::test_a_topic_that_must_not_be_copied_is_refused",
    ),
    switched_off(
        ADMIN,
        "I18",
        "a topic whose configuration may not be described has disks",
        "        if denied and self._may_know(_DISKLESS):",
        _MAY_BE,
    ),
    Mutation(
        "I18",
        "brokers that do not say what they know do not know topics without disks",
        ADMIN,
        "        return not isinstance(outcome, Mapping) or setting in outcome\n",
        "        return isinstance(outcome, Mapping) and setting in outcome\n",
        _MAY_BE,
    ),
    Mutation(
        "metadata are kept",
        "looks at segments alone for the oldest record that is needed",
        "core/log/needed_records.py",
        "        if marker is not None:\n            offsets[number]",
        "        if False:\n            offsets[number]",
        f"{_PREFLIGHT}test_a_retention_that_is_too_short_for_what_is_still_needed_is_critical",
    ),
    Mutation(
        "metadata are kept",
        "calls a retention too short on the day on which records go",
        "core/log/metadata_settings.py",
        "    too_short_ms = gone_ms - MARGIN_MS",
        "    too_short_ms = gone_ms",
        f"{_PREFLIGHT}test_a_retention_that_is_too_short_for_what_is_still_needed_is_critical",
    ),
    Mutation(
        "metadata are kept",
        "a run stays green below too short a retention",
        "features/cleanup/steps.py",
        "[*root.refusals, *unknown, *kept.refusals, *copied.refusals, *made.summary.refusals]",
        "[*root.refusals, *unknown, *copied.refusals, *made.summary.refusals]",
        "airflow/operators/test_kept_metadata.py::test_a_run_below_too_short_a_retention_cleans_and_is_red",
    ),
    Mutation(
        "metadata are kept",
        "takes settings that may not be described for a retention that is long enough",
        "core/runs/kept_metadata.py",
        "        return KeptMetadata(name, unknown=unknown)",
        "        return KeptMetadata(name)",
        "airflow/operators/test_kept_metadata.py::test_the_check_says_how_long_metadata_that_are_needed_are_kept",
    ),
]
