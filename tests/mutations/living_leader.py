# SPDX-License-Identifier: Apache-2.0
"""Mutations that break a rule about what is believed of a living leader."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

LEADER = "core/log/kafka/leader.py"
TESTS = "core/log/kafka/test_leader.py"

LIVING_LEADER = [
    Mutation(
        "copying",
        "a moment between two leaders passes for a partition without a leader",
        LEADER,
        "if leaders[partition] is not None or time.monotonic() >= deadline:",
        "if True:",
        f"{TESTS}::test_a_moment_between_two_leaders_does_not_pass_for_a_partition_that_nobody_leads",
    ),
    Mutation(
        "copying",
        "a setting that the cluster does not tell has a default",
        LEADER,
        "    if missing := [name for name in needed if name not in settings]:\n",
        "    settings = dict.fromkeys(needed, 0) | dict(settings)\n"
        "    if missing := [name for name in needed if name not in settings]:\n",
        f"{TESTS}::test_a_setting_that_the_cluster_does_not_tell_passes_for_no_default",
    ),
    Mutation(
        "copying",
        "the end of what is decided is the end of the log",
        LEADER,
        "admin_api.OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)",
        "admin_api.OffsetSpec.latest())",
        f"{TESTS}::test_the_answer_names_the_topic_id_of_now_and_the_cluster_that_gave_it",
    ),
    Mutation(
        "copying",
        "the next record passes for the one that was asked for",
        LEADER,
        "return _record(message) if message.offset() == offset else None",
        "return _record(message)",
        f"{TESTS}::test_a_record_is_what_was_served_at_this_very_offset",
    ),
    Mutation(
        "copying",
        "a cluster without the metadata topic may say that a topic is gone",
        LEADER,
        "                self._admin.metadata_topic(self._metadata_topic, described[self._metadata_topic])\n"
        "                return None\n",
        "                return None\n",
        f"{TESTS}::test_only_a_cluster_with_the_metadata_topic_may_say_that_a_topic_is_gone",
    ),
    Mutation(
        "copying",
        "a replica near by speaks for the leader",
        "core/log/kafka/leader_clients.py",
        '{"client.rack": "", ',
        "{",
        f"{TESTS}::test_only_the_leader_itself_is_read",
    ),
]
