# SPDX-License-Identifier: Apache-2.0
"""Mutations of restores from a catalogue, and of those that were interrupted."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

STEPS = "features/archiving/restore_steps.py"
RULES = "features/archiving/restore_rules.py"
CATALOGUE = "features/archiving/restore_catalogue.py"

_LEAVE = "by leave only"
_RESTORE = "restore"
_CATALOGUES = "features/archiving/test_restoring_catalogues.py::"

RESTORED = [
    switched_off(
        RULES,
        _LEAVE,
        "restores from a bucket without a start that a person names",
        "        if not self.beginning and self.time_ms is None and not self.offsets:",
        _CATALOGUES + "test_a_start_has_to_be_named",
    ),
    switched_off(
        RULES,
        _LEAVE,
        "restores a partition whose start nobody names",
        "        if open_ones and not self.beginning and self.time_ms is None:",
        _CATALOGUES + "test_a_start_names_every_partition_and_no_other",
    ),
    Mutation(
        _LEAVE,
        "restores what a person should decide first",
        CATALOGUE,
        "            replace(catalogue.asked, or_doubtful=False),\n",
        "            catalogue.asked,\n",
        _CATALOGUES + "test_what_a_person_should_decide_is_refused_though_it_is_read_elsewhere",
    ),
    Mutation(
        _LEAVE,
        "takes the catalogue of the lost cluster for one of the cluster that is written to",
        CATALOGUE,
        "allow_writes=False, expected_cluster_id=cluster_id)",
        "allow_writes=False)",
        _CATALOGUES + "test_every_record_is_written_and_each_partition_says_how_far_it_reaches",
    ),
    switched_off(
        STEPS,
        _RESTORE,
        "writes records of a topic into that topic itself",
        "    if (source.cluster_id, topic_id) == (cluster_id, kafka_uuid_str(look.topic_id)):",
        _CATALOGUES + "test_a_topic_is_not_restored_into_itself",
    ),
    Mutation(
        _RESTORE,
        "says that offsets stay though they differ",
        "features/archiving/archive/measuring.py",
        "        if differs_from is None and moved.any():\n",
        "        if False:\n",
        _CATALOGUES + "test_every_record_is_written_and_each_partition_says_how_far_it_reaches",
    ),
]
