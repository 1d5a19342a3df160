# SPDX-License-Identifier: Apache-2.0
"""Mutations of what the Spark job says of leaders: each would call a row certain that its leader keeps."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

WALK = "features/retention/spark/executor/leader_walk.py"
JUDGING = "features/retention/spark/executor/judging.py"
OVERLAPS = "core/records/fold/overlaps.py"
TOLD = "features/retention/told_leaders.py"
AGAIN = "features/retention/spark/leaders_again.py"
PLAN_FILE = "features/retention/spark/executor/plan_file.py"
TASK = "features/retention/spark/executor/metadata_partition.py"

_WORLDS = "features/retention/test_leader_walk.py"
_JUDGED = "features/retention/test_judging.py"
_LEADERS = "features/retention/test_told_leaders.py"


def _mutation(name: str, room: str, old: str, new: str, test: str) -> Mutation:
    return Mutation("leaders in Spark", name, room, old, new, test)


LEADER_WALK = [
    # -- the walk
    _mutation(
        "a segment is of the lineage wherever its epoch ends there",
        WALK,
        "(end_offset.take(owner) < lineages.end.take(at))[single]",
        "(end_offset.take(owner) < _LAST)[single]",
        _WORLDS,
    ),
    _mutation(
        "a segment reaches beyond the end of the log",
        WALK,
        '    valid &= end_offset < by_partition(partitions, "log_end_offset").take(number)\n',
        "",
        _WORLDS,
    ),
    _mutation(
        "segments with one place in an epoch are told all the same",
        WALK,
        "    odd = _sharing_a_place(segments, epochs)\n",
        "    odd = np.zeros(segments.first.size, bool)\n",
        _WORLDS,
    ),
    _mutation(
        "a segment whose first epoch begins elsewhere is told all the same",
        WALK,
        '(segments.columns["segment_size_in_bytes"] < 0) | _is_forged(segments, epochs)',
        '(segments.columns["segment_size_in_bytes"] < 0)',
        f"{_JUDGED}::test_of_segments_that_no_leader_writes_nothing_is_told",
    ),
    _mutation(
        "within an epoch segments come by start offset, not as the epoch lists them",
        WALK,
        " | (same & (begins[1:] < begins[:-1]))",
        "",
        f"{_WORLDS}::test_no_row_is_too_many_where_almost_the_same_partition_has_it",
    ),
    _mutation(
        "a segment that is being copied stops nothing",
        WALK,
        "    stops = _beside(copying, segments)\n",
        "    stops = np.zeros(state.size, bool)\n",
        _WORLDS,
    ),
    _mutation(
        "what lies below the log start goes with any epochs",
        WALK,
        "    reason[below & standing.within_start] = LOG_START_OFFSET",
        "    reason[below] = LOG_START_OFFSET",
        f"{_JUDGED}::test_what_lies_below_the_log_start_in_a_later_epoch_stays",
    ),
    _mutation(
        "what the pass itself puts below the earliest epoch stays",
        WALK,
        "map(_earliest_epoch, partitions, begins.tolist())",
        "(one.lineage.entries[0][0] for one in partitions)",
        _WORLDS,
    ),
    _mutation(
        "a lineage that is older than the newest segment is believed",
        WALK,
        " & standing.ordered & ~standing.stale",
        " & standing.ordered",
        f"{_JUDGED}::test_where_nothing_is_told_the_rows_are_estimates",
    ),
    _mutation(
        "the machine's own clock decides what is due",
        WALK,
        "    certain_ms = -1 if passed_ms is None else min(passed_ms, now_ms)",
        "    certain_ms = now_ms",
        f"{_JUDGED}::test_its_leader_may_delete_more",
    ),
    _mutation(
        "a finished segment that lay over a living one is forgotten",
        OVERLAPS,
        "            found[number[mine.start]] = bool(shares.any())\n",
        "            found[number[mine.start]] = False\n",
        f"{_JUDGED}::test_a_finished_segment_may_have_taken_the_place_of_another",
    ),
    # -- what stands against telling anything
    _mutation(
        "rows are certain beside records that cannot be applied",
        TASK,
        "        if folding.quarantined.num_rows:",
        "        if False:",
        f"{_JUDGED}::test_where_nothing_is_told_the_rows_are_estimates",
    ),
    _mutation(
        "rows are certain in a log that has lost its beginning",
        TASK,
        "        if self._order.begins.get(self.number, 0) > 0 or",
        "        if",
        f"{_JUDGED}::test_nothing_is_told_of_a_log_that_has_lost_records",
    ),
    _mutation(
        "rows are certain beside a segment whose state is not",
        JUDGING,
        "doubt or (UNCERTAIN if is_uncertain else None)",
        "doubt",
        f"{_JUDGED}::test_where_nothing_is_told_the_rows_are_estimates",
    ),
    _mutation(
        "bytes that are only on a leader's disk are taken for none",
        JUDGING,
        "Certainty.AT_LEAST if more or topic.retention_bytes >= 0 else Certainty.ALL",
        "Certainty.AT_LEAST if more else Certainty.ALL",
        f"{_JUDGED}::test_its_leader_may_delete_more",
    ),
    # -- the two looks
    _mutation(
        "the lineage of a leader that leads no more is told",
        TOLD,
        "known is None or look.leader_epoch is None or known.leader_epoch != look.leader_epoch",
        "known is None or look.leader_epoch is None",
        f"{_LEADERS}::test_why_nothing_is_told_of_a_leader",
    ),
    _mutation(
        "a leader that was elected during the read is believed",
        AGAIN,
        "        if leader_epoch != before.leader_epoch:",
        "        if False:",
        f"{_LEADERS}::test_leaders_that_say_something_else",
    ),
    _mutation(
        "a log start that has moved during the read is believed",
        AGAIN,
        "return None if log_start_offset == before.log_start_offset else BEGINS_ELSEWHERE",
        "return None",
        f"{_LEADERS}::test_leaders_that_say_something_else",
    ),
    _mutation(
        "leaders that do not answer again are believed",
        AGAIN,
        "        return _all_of(wanted, NOT_AGAIN)",
        "        return {}",
        f"{_LEADERS}::test_of_a_compacted_log_nothing_is_believed",
    ),
    _mutation(
        "leaders are believed by a compacted log",
        AGAIN,
        "    if era.era is Era.COMPACTED:",
        "    if False:",
        f"{_LEADERS}::test_of_a_compacted_log_nothing_is_believed",
    ),
    _mutation(
        "rows of leaders that say something else stay certain",
        PLAN_FILE,
        'pc.and_(judged["exact"], pc.invert(_is_of(judged, changed)))',
        'judged["exact"]',
        "features/retention/test_plan_file.py::test_nothing_is_certain_where_the_leader_says_something_else_now",
    ),
]
