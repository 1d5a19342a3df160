# SPDX-License-Identifier: Apache-2.0
"""Mutations of the rules that say whose storage root this is (I2)."""

from __future__ import annotations

from tests.mutations.mutation import LAYOUT_STORAGE, ROOT_PROOF, Mutation, switched_off

ROOT = "storage/root.py"
OBJECT_STORE = "storage/object_store.py"
DEADLINE = "storage/deadline.py"
OPENING = "storage/opening.py"
STORAGE_HOOK = "hooks/storage.py"
FRESHNESS = "policy/freshness.py"
LOOK_FOR_FRESHNESS = "lifecycle/freshness.py"
UNSEEN = "policy/unseen.py"
ROOT_LEDGER = "lifecycle/root_ledger.py"

STORAGE_ROOT = [
    Mutation(
        "I2",
        "stamps a root that it could not verify",
        LAYOUT_STORAGE,
        "for c in check.places if c.verified)",
        "for c in check.places)",
        "storage/test_in_memory.py",
    ),
    Mutation(
        "I2",
        "takes any root for verified",
        ROOT,
        'return self._check(None, root_id, f"{known}',
        'return self._check(RootProof.OBJECT, root_id, f"{known}',
        "lifecycle/test_cleaner_missing.py::test_below_a_root_that_is_not_verified_nothing_unseen_is_finished",
    ),
    Mutation(
        "I2",
        "takes a stamp that nobody has recorded for a proof",
        ROOT,
        "        if root_id in expectation.recorded:",
        "        if root_id is not None:",
        "lifecycle/test_cleaner.py::test_resumed_after_the_last_delete_of_a_cluster_it_finishes",
    ),
    Mutation(
        "I2",
        "knows an older root of a place again",
        ROOT_LEDGER,
        "**known, **root_ids}",
        "**root_ids, **known}",
        "lifecycle/test_root_ledger.py",
    ),
    switched_off(
        ROOT_PROOF,
        "I2",
        "takes topics that may not be described for none",
        "        if FreshnessVerdict.NOTHING_LIVES in map(freshness.verdict, places):",
        "lifecycle/test_root_proof.py::test_topics_that_may_not_be_described_are_not_taken_for_none",
    ),
    Mutation(
        "I2",
        "asks for hidden topics and forgets who lives",
        ROOT_PROOF,
        "            freshness = look_for_freshness(log, _living_by_name(log, topics), storage)",
        "            _living_by_name(log, topics)",
        "lifecycle/test_root_proof.py::test_a_topic_that_one_listing_leaves_out_is_found_by_its_name",
    ),
    Mutation(
        "I2",
        "takes another cluster's stamp for its own",
        ROOT,
        '    return f"{STAMP_FOLDER}{_quoted(cluster_id)}/',
        '    return f"{STAMP_FOLDER}all/',
        "storage/test_in_memory.py",
    ),
    Mutation(
        "I2",
        "believes a stamp wherever it lies",
        ROOT,
        "            if stamp == own:",
        "            if True:",
        "storage/test_in_memory.py",
    ),
    switched_off(
        ROOT,
        "I2",
        "works below another root than the expected one",
        "        if expectation.expected_root is not None:",
        "storage/test_in_memory.py",
    ),
    Mutation(
        "I2",
        "stamps over a stamp that names another location",
        LAYOUT_STORAGE,
        "            stamp = look.stamp(move_stamp=check.move_stamp)",
        "            stamp = look.stamp(move_stamp=True)",
        "storage/test_in_memory.py",
    ),
    Mutation(
        "I2",
        "replaces the stamp of somebody who was faster",
        LAYOUT_STORAGE,
        "replace=look.raw_stamp is not None)",
        "replace=True)",
        "storage/test_in_memory.py::test_the_first_of_two_stamps_stays",
    ),
    switched_off(
        LAYOUT_STORAGE,
        "I2",
        "believes the listing of another root than the one that was checked",
        "        if expected_root not in (None, (root,)):",
        "storage/test_object_store.py",
    ),
    switched_off(
        LAYOUT_STORAGE,
        "I2",
        "believes the listing of another folder than the one that was listed first",
        "            if self._directories.get(prefix, identity) != identity:",
        "storage/test_in_memory.py",
    ),
    Mutation(
        "I2",
        "does not notice that a folder was replaced while objects were deleted",
        LAYOUT_STORAGE,
        "            with self._steady(listings):\n                for prefix",
        "            if True:\n                for prefix",
        "storage/test_in_memory.py",
    ),
    switched_off(
        OBJECT_STORE,
        "I2",
        "follows symbolic links below the root",
        "        if stat.S_ISLNK(status.st_mode):",
        "storage/test_object_store.py",
    ),
    switched_off(
        FRESHNESS,
        "I2",
        "works below a root that holds none of the newest copies",
        "            if verdict is FreshnessVerdict.STALE:",
        "lifecycle/test_freshness.py::test_a_root_without_any_of_them_is_refused_whatever_is_overridden",
    ),
    switched_off(
        FRESHNESS,
        "I2",
        "works below a root that lacks some of the newest copies",
        "            if verdict is FreshnessVerdict.PARTLY_MISSING and MISSING_LIVING_SEGMENTS not in overrides:",
        "lifecycle/test_freshness.py::test_a_single_one_that_is_missing_in_part_needs_its_override",
    ),
    switched_off(
        FRESHNESS,
        "I2",
        "works below a root that nothing proves",
        "            if verdict is FreshnessVerdict.NOTHING_LIVES and place not in expected and UNPROVEN_ROOT not in overrides:",
        "lifecycle/test_freshness.py::test_without_a_living_topic_the_stamp_must_be_expected_or_a_person_says_so",
    ),
    Mutation(
        "I2",
        "takes what brokers deleted during the listing for lost",
        LOOK_FOR_FRESHNESS,
        "    copied = _still_copied(log, doubtful, chunk_rows)",
        "    copied = {sample.segment_id for sample in doubtful}",
        "lifecycle/test_freshness.py::test_what_was_deleted_in_between_does_not_count",
    ),
    Mutation(
        "I2",
        "takes any copy of a living topic for the newest",
        LOOK_FOR_FRESHNESS,
        'copied.sort_by([("event_timestamp_ms", "descending")])',
        'copied.sort_by([("event_timestamp_ms", "ascending")])',
        "lifecycle/test_freshness.py::test_a_root_with_the_newest_copies_is_fresh",
    ),
    switched_off(
        UNSEEN,
        "I2",
        "finishes what was not seen at a place that is not proven",
        "    if not segment.places_proven:",
        "policy/test_unseen.py::test_the_rule_is_the_table",
    ),
    switched_off(
        UNSEEN,
        "I2",
        "finishes what a broker began to delete where prefixes may have changed",
        "    if not segment.only_place:",
        "policy/test_unseen.py::test_the_rule_is_the_table",
    ),
    switched_off(
        UNSEEN,
        "I2",
        "finishes what a broker began to delete below a root that may be old",
        "    if not segment.root_is_fresh:",
        "policy/test_unseen.py::test_the_rule_is_the_table",
    ),
    switched_off(
        DEADLINE,
        "storage",
        "asks a store again and again while it hangs",
        "        if self._hanging is not None and not self._hanging.done.is_set():",
        "storage/test_deadline.py::test_while_a_call_hangs_no_other_one_is_made",
    ),
    Mutation(
        "storage",
        "takes a call that hangs for one that has ended",
        DEADLINE,
        "        if not ended:",
        "        if False:",
        "storage/test_deadline.py::test_every_call_ends",
    ),
    Mutation(
        "storage",
        "says that keys were asked to be deleted that never were",
        "storage/deletion.py",
        "    return tuple(key for key in seen if key in sent)",
        "    return tuple(seen)",
        "storage/test_in_memory.py",
    ),
    Mutation(
        "storage",
        "hands an option in capital letters to obstore, which panics",
        OPENING,
        "    name = key.lower()",
        "    name = key",
        "storage/test_opening.py",
    ),
    switched_off(
        OPENING,
        "storage",
        "takes one of two spellings of an option that disagree",
        "        if found.setdefault(name, value) != value:",
        "storage/test_opening.py::test_two_spellings_of_one_option_must_agree",
    ),
    Mutation(
        "I2",
        "does not tell the tasks which root the connection expects",
        STORAGE_HOOK,
        "        return RootExpectation(frozenset(recorded), expected_root,",
        "        return RootExpectation(frozenset(recorded), None,",
        "airflow/test_operators.py::test_nothing_is_deleted_below_another_root_than_the_expected_one",
    ),
    Mutation(
        "I2",
        "moves a stamp without being told to",
        STORAGE_HOOK,
        "MOVE_STAMP in overrides)",
        "True)",
        "airflow/test_operators.py::test_a_copy_of_the_root_is_refused_until_its_stamp_is_moved",
    ),
    Mutation(
        "hold",
        "takes anything that is false for an empty hold",
        "operators/arguments.py",
        'Hold.of(() if value is None or value == "" else',
        "Hold.of(() if not value else",
        "airflow/test_arguments.py::test_only_nothing_lifts_a_hold",
    ),
]
