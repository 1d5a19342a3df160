# SPDX-License-Identifier: Apache-2.0
"""Mutations of what says that every byte of a topic is gone: people delete credentials and buckets by it."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

GONE = "features/cleanup/topic_gone_rules.py"
PROOF = "features/cleanup/topic_gone.py"
SESSION = "features/cleanup/topic_gone_steps.py"
SENSOR = "sensors/proving.py"
WALK = "core/storage/walk.py"

_PROOF_TEST = "features/cleanup/test_topic_gone.py::"
_SENSOR_TEST = "airflow/sensors/test_gone_sensor.py::"
_PROMISE = "gone is proved"

WATCHING = [
    Mutation(
        _PROMISE,
        "calls gone what is not finished",
        GONE,
        "        if self.state is not RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:",
        "        if self.state is None:",
        _PROOF_TEST + "test_a_partition_that_is_not_finished",
    ),
    Mutation(
        _PROMISE,
        "calls gone what has unfinished segments after its end",
        GONE,
        "        if self.unfinished or self.uncertain:",
        "        if self.uncertain:",
        _PROOF_TEST + "test_a_segment_after_the_end",
    ),
    Mutation(
        _PROMISE,
        "calls gone what has unknown segments",
        GONE,
        "        if self.unfinished or self.uncertain:",
        "        if self.unfinished:",
        _PROOF_TEST + "test_an_update_of_a_segment_that_nobody_knows",
    ),
    Mutation(
        _PROMISE,
        "overlooks events after the end",
        GONE,
        "self.last_segment_offset > self.finished_offset:",
        "False:",
        _PROOF_TEST + "test_a_segment_that_came_and_went_after_the_end",
    ),
    Mutation(
        _PROMISE,
        "calls gone a topic that lives",
        GONE,
        "    if presence is not Presence.ABSENT:",
        "    if False:",
        _PROOF_TEST + "test_a_topic_that_lives_is_not_gone",
    ),
    Mutation(
        _PROMISE,
        "calls gone what lies in storage",
        GONE,
        "    if objects:",
        "    if False:",
        _PROOF_TEST + "test_an_object_of_the_id_under_any_name",
    ),
    Mutation(
        _PROMISE,
        "takes a place that cannot be listed for an empty one",
        PROOF,
        "        elif found.state is FolderState.BROKEN:",
        "        elif False:",
        _PROOF_TEST + "test_a_place_that_cannot_be_listed",
    ),
    Mutation(
        _PROMISE,
        "knows an object by the layout's own suffixes and names only",
        PROOF,
        "    return kafka_uuid_str(topic_id) in key or str(topic_id) in key",
        "    return False",
        _PROOF_TEST + "test_an_object_of_the_id_under_any_name",
    ),
    Mutation(
        _PROMISE,
        "looks into no folder of the topic",
        WALK,
        "in self.topic_ids",
        "not in self.topic_ids",
        _PROOF_TEST + "test_an_object_of_the_id_under_any_name",
    ),
    Mutation(
        _PROMISE,
        "does not read the log again after the listing",
        PROOF,
        "    whys = (*absent, *listed)\n    ends = _read_on(replays, wanted)",
        "    whys = (*absent, *listed)",
        _PROOF_TEST + "test_what_begins_while_storage_is_listed_is_seen",
    ),
    Mutation(
        _PROMISE,
        "takes an id that the log never named for one that is gone",
        PROOF,
        "    if not ends:\n",
        "    if False:\n",
        _PROOF_TEST + "test_an_id_that_was_never_named",
    ),
    Mutation(
        _PROMISE,
        "takes the id of another topic",
        PROOF,
        "    if wanted.name is not None and wanted.name not in names:",
        "    if False:",
        _PROOF_TEST + "test_an_id_of_another_topic",
    ),
    Mutation(
        _PROMISE,
        "believes a log that lost its beginning",
        PROOF,
        "        if view.begin > 0:",
        "        if False:",
        _PROOF_TEST + "test_a_log_that_lost_its_beginning",
    ),
    Mutation(
        _PROMISE,
        "overlooks a record that cannot be read",
        PROOF,
        "            if record.code not in wanted.allowed_quarantine and",
        "            if False and",
        _PROOF_TEST + "test_a_record_that_nobody_can_read",
    ),
    Mutation(
        _PROMISE,
        "does not ask whose storage root it is",
        SESSION,
        "        root = session.prove_root(topic, limits, storage)",
        "        from types import SimpleNamespace as N\n        root = N(effect=N(freed=None, days=None))",
        _SENSOR_TEST + "test_a_storage_of_another_cluster_proves_nothing",
    ),
    Mutation(
        _PROMISE,
        "forgets what a bucket keeps hidden",
        GONE,
        "    if now_ms < freed_ms:",
        "    if False:",
        _SENSOR_TEST + "test_a_bucket_that_keeps_what_is_deleted",
    ),
    Mutation(
        _PROMISE,
        "takes brokers that do not answer for a topic that is gone",
        SENSOR,
        "        is_proved = found is not None and not found.why_not",
        "        is_proved = found is None or not found.why_not",
        _SENSOR_TEST + "test_what_does_not_answer_is_not_gone",
    ),
]
