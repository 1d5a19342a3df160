# SPDX-License-Identifier: Apache-2.0
"""Mutations that make another state of several, or let two states that differ look alike."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

MERGING_STORES = "core/records/fold/merging.py"
DIGEST = "core/records/fold/digest.py"
LIVING = "core/records/fold/living.py"

_MERGED = "core/records/test_columnar_merging.py"
_DIGEST = "core/records/test_columnar_digest.py"

MERGING = [
    Mutation(
        "merged states",
        "a user partition may stand in two metadata partitions",
        MERGING_STORES,
        "    _require_different_partitions(merged)\n",
        "",
        f"{_MERGED}::test_a_user_partition_in_two_of_them_is_refused",
    ),
    switched_off(
        MERGING_STORES,
        "merged states",
        "a state that forgets finished segments goes into one that keeps them",
        "        elif merged.keep_finished != store.keep_finished:",
        f"{_MERGED}::test_states_that_keep_finished_segments_are_none_with_others",
    ),
    Mutation(
        "merged states",
        "segments go to user partitions of another metadata partition",
        MERGING_STORES,
        '"segments.user_partition": "partitions", ',
        "",
        f"{_MERGED}::test_states_of_two_metadata_partitions_are_together_the_state_of_both",
    ),
    Mutation(
        "merged states",
        "segments have the leader epochs of others",
        MERGING_STORES,
        '"segments.epochs_at": "epochs", ',
        "",
        f"{_MERGED}::test_segments_keep_what_they_refer_to",
    ),
    Mutation(
        "merged states",
        "segments have the custom metadata of others",
        MERGING_STORES,
        ', "segments.custom_at": "custom"}',
        "}",
        f"{_MERGED}::test_segments_keep_what_they_refer_to",
    ),
    Mutation(
        "merged states",
        "user partitions have the topics of others",
        MERGING_STORES,
        "renumbered = topics.take(values)",
        "renumbered = values",
        f"{_MERGED}::test_each_topic_is_there_once",
    ),
    Mutation(
        "merged states",
        "deletions under way are those of other user partitions",
        MERGING_STORES,
        "{shift + row: deletion for",
        "{row: deletion for",
        f"{_MERGED}::test_states_of_two_metadata_partitions_are_together_the_state_of_both",
    ),
    Mutation(
        "merged states",
        "what is uncertain is a segment of another user partition",
        MERGING_STORES,
        "{(shift + row, high, low): why for",
        "{(row, high, low): why for",
        f"{_MERGED}::test_states_of_two_metadata_partitions_are_together_the_state_of_both",
    ),
    Mutation(
        "merged states",
        "all states are in memory beside the merged one",
        MERGING_STORES,
        "        del store\n",
        "",
        f"{_MERGED}::test_a_state_is_dropped_before_the_next_is_asked_for",
    ),
    switched_off(
        DIGEST,
        "digests",
        "finished segments do not count",
        "    if store.keep_finished:",
        f"{_DIGEST}::test_a_segment_left_out_invented_or_called_finished_is_noticed",
    ),
    Mutation(
        "digests",
        "custom metadata do not count",
        DIGEST,
        "        yield custom_bytes(store, some)\n",
        "",
        f"{_DIGEST}::test_what_segments_refer_to_counts",
    ),
    Mutation(
        "digests",
        "custom metadata of one segment look like those of another",
        DIGEST,
        '("user_partition", "epochs_at", "custom_at")',
        '("user_partition", "epochs_at", "custom_at", "custom_length")',
        f"{_DIGEST}::test_bytes_do_not_move_from_one_segment_to_another",
    ),
    Mutation(
        "digests",
        "leader epochs do not count",
        DIGEST,
        "            yield epochs[column].take(at)\n",
        "            yield at[:0]\n",
        f"{_DIGEST}::test_what_segments_refer_to_counts",
    ),
    Mutation(
        "digests",
        "names of topics do not count",
        DIGEST,
        "        yield text[ends[0] : ends[-1]]\n",
        "",
        f"{_DIGEST}::test_the_name_of_a_topic_counts",
    ),
    Mutation(
        "digests",
        "what is uncertain does not count",
        DIGEST,
        "    yield said.take(rows, axis=0)\n",
        "",
        f"{_DIGEST}::test_what_is_uncertain_counts",
    ),
    Mutation(
        "digests",
        "the times of observations do not count",
        DIGEST,
        "(o.offset, o.time_ms, o.bounded)",
        "(o.offset, o.bounded)",
        f"{_DIGEST}::test_every_observation_counts",
    ),
    Mutation(
        "digests",
        "the order in which segments lie counts",
        LIVING,
        "np.lexsort((*ids, *others, *keys(some)))",
        "np.lexsort((*others, *keys(some)))",
        f"{_DIGEST}::test_segments_that_one_offset_added_have_an_order",
    ),
    Mutation(
        "digests",
        "what is left of a copy that has ended counts",
        DIGEST,
        "yield values * is_copying if column in _OF_A_COPY else values",
        "yield values",
        f"{_DIGEST}::test_what_is_left_of_a_copy_that_has_ended_does_not_matter",
    ),
]
