# SPDX-License-Identifier: Apache-2.0
"""Mutations that let a copier harm a broker, or lose data of a living topic."""

from __future__ import annotations

from tests.mutations.mutation import COPY_GUARD, HISTORY, WRITE_GUARD, Mutation, switched_off

FOLD_DELETIONS = "metadata/columnar/fold/deletions.py"

_GUARD = "event_log/test_copy_guard.py::"
_HARM = f"{_GUARD}test_what_could_harm_a_broker_or_lose_data_is_not_written"


def _guard(name: str, condition: str, test: str = _HARM) -> Mutation:
    return switched_off(COPY_GUARD, "copy guard", name, condition, test)


COPYING = [
    switched_off(
        WRITE_GUARD,
        "copy guard",
        "copies though allow_copy is off",
        "        if not self._allow_copy:",
        f"{_GUARD}test_without_both_rights_nothing_is_written",
    ),
    Mutation(
        "copy guard",
        "copies though allow_writes is off",
        WRITE_GUARD,
        "        self.require_writes(what)\n",
        "",
        f"{_GUARD}test_without_both_rights_nothing_is_written",
    ),
    _guard(
        "copies with an unproven partitioner",
        "    if not state.routing_verified():",
        f"{_GUARD}test_a_partitioner_that_nothing_proves_writes_nothing",
    ),
    _guard(
        "believes the leader of another cluster",
        "    if state.cluster_asked() != log.topic_id:",
        f"{_GUARD}test_a_leader_of_another_cluster_allows_nothing",
    ),
    _guard("a copier speaks for a broker", "    if event.broker_id != COPIER_BROKER_ID:"),
    _guard("copies what was declared deleted", "    if state.was_deleted(tip):"),
    _guard("announces a segment in another state than STARTED", "    if event.state is not _STARTED:"),
    _guard("announces a segment again", "    if state.was_announced(segment_id):"),
    _guard("announces custom metadata", "    if event.custom_metadata is not None:"),
    _guard(
        "announces a segment that cannot be",
        "    if not 0 <= event.start_offset <= event.end_offset or event.segment_size_in_bytes < 1:",
    ),
    _guard("announces leader epochs that do not ascend", "    if not epochs or not ascending or epochs[0][0] < 0:"),
    _guard(
        "announces leader epochs outside of the segment",
        "    if epochs[0][1] < event.start_offset or epochs[-1][1] > event.end_offset:",
    ),
    Mutation(
        "copy guard",
        "does not ask the leader before STARTED",
        COPY_GUARD,
        "    _check_leader_epochs(event)\n    _check_permission(event, state)\n",
        "    _check_leader_epochs(event)\n",
        _HARM,
    ),
    Mutation(
        "copy guard",
        "does not ask the leader before FINISHED",
        COPY_GUARD,
        "        _check_permission(segment.with_update(event), state)\n",
        "        pass\n",
        _HARM,
    ),
    _guard("updates a segment to STARTED", "    if event.state not in _BEFORE:"),
    Mutation(
        "copy guard",
        "updates a segment that it does not know",
        COPY_GUARD,
        "    if segment is None:",
        "    if segment is None:\n        return\n    if False:",
        _HARM,
    ),
    _guard("takes back what somebody else copies", "    if not state.is_ours(segment_id):"),
    _guard("writes what does not follow", "    if segment.state is not _BEFORE[event.state]:"),
    _guard("takes back a finished copy", "    if state.was_copied(segment_id):"),
    _guard(
        "finishes with more custom metadata than brokers allow",
        '        if len(event.custom_metadata or b"") > MAX_CUSTOM_METADATA_BYTES:',
    ),
    Mutation(
        "copy guard",
        "a roll-back replaces custom metadata",
        COPY_GUARD,
        "    elif event.custom_metadata != segment.custom_metadata:",
        "    elif False:",
        _HARM,
    ),
    Mutation(
        "foreign",
        "a copy under the cleaner's id is no sign of life",
        HISTORY,
        "event.broker_id != OWN_BROKER_ID or event.state in COPYING:",
        "event.broker_id != OWN_BROKER_ID:",
        "lifecycle/test_history.py::test_whoever_copies_is_somebody_else_whatever_id_it_has",
    ),
    Mutation(
        "foreign",
        "a copy under the cleaner's id is no sign of life to the fold",
        FOLD_DELETIONS,
        "((self.broker_id != OWN_BROKER_ID) | copying)",
        "(self.broker_id != OWN_BROKER_ID)",
        "lifecycle/test_topic_view.py::test_whoever_copies_is_somebody_else_to_the_fold_too",
    ),
]
