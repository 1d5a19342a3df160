# SPDX-License-Identifier: Apache-2.0
"""Mutations that break the audit log, or remove more of the work folder than is old."""

from __future__ import annotations

from tests.mutations.mutation import BATCHES, EFFECTS, Mutation, switched_off

TRAIL = "features/cleanup/cleaning_trail.py"
FILES = "core/world/audit_files.py"
PRUNING = "overview/pruning.py"
HOUSEKEEPING = "overview/housekeeping.py"
LOG = "audit log"
OLD = "old runs"
TESTS = "core/world/test_audit.py"
KEEPING = "airflow/operators/test_housekeeping.py"

AUDIT = [
    Mutation(
        LOG,
        "nothing is written down before",
        EFFECTS,
        "        return DeletionTrail.begin(self.audit, columns, metadata_partition)",
        "        return None",
        f"{TESTS}::test_each_batch_is_written_down_before_and_after",
        simulated=True,
    ),
    Mutation(
        LOG,
        "what cannot be written down is deleted all the same",
        EFFECTS,
        "        return DeletionTrail.begin(self.audit, columns, metadata_partition)",
        "        from airflow_provider_rlmm.core.base.errors import AuditError\n\n"
        "        try:\n"
        "            return DeletionTrail.begin(self.audit, columns, metadata_partition)\n"
        "        except AuditError:\n"
        "            return None",
        f"{TESTS}::test_what_cannot_be_written_down_is_not_deleted_and_the_next_run_goes_on",
        simulated=True,
    ),
    Mutation(
        LOG,
        "it is written down after the deletion",
        BATCHES,
        "        self._trail = CleaningTrail.begin(self._context.effects, self._context.replay.metadata_partition, begun)\n"
        "        try:\n"
        "            deletions = self._delete_and_finish(started, proof)\n",
        "        try:\n"
        "            deletions = self._delete_and_finish(started, proof)\n"
        "            self._trail = CleaningTrail.begin(self._context.effects, self._context.replay.metadata_partition, begun)\n",
        f"{TESTS}::test_what_cannot_be_written_down_is_not_deleted_and_the_next_run_goes_on",
        simulated=True,
    ),
    Mutation(
        LOG,
        "an error in mid-batch leaves no outcome",
        BATCHES,
        "        except RlmmError:\n            self._end_trail()\n            raise\n",
        "        except RlmmError:\n            raise\n",
        f"{TESTS}::test_an_error_that_ends_the_run_in_mid_batch_leaves_an_unknown_outcome",
        simulated=True,
    ),
    Mutation(
        LOG,
        "an outcome that cannot be written is not told",
        BATCHES,
        "            self._on_refusal(refusal)\n",
        "            pass\n",
        f"{TESTS}::test_an_outcome_that_cannot_be_written_is_told_in_red_and_the_work_goes_on",
        simulated=True,
    ),
    Mutation(
        LOG,
        "the outcomes of a batch are those of other segments",
        TRAIL,
        "        return self.trail.end([self._fate(segment_id) for segment_id in self.ids])",
        "        return self.trail.end([self._fate(segment_id) for segment_id in self.ids[::-1]])",
        f"{TESTS}::test_objects_that_stay_are_told_with_the_reason",
    ),
    Mutation(
        LOG,
        "a file is written over",
        "core/world/audit_log.py",
        '            create_file(f"{batch.uri}/{name}", [audit_bytes(rows)])',
        '            __import__("airflow_provider_rlmm.core.base.file_systems").file_systems.replace_file('
        'f"{batch.uri}/{name}", [audit_bytes(rows)])',
        f"{TESTS}::test_a_file_is_never_written_over",
    ),
    Mutation(
        LOG,
        "a scrub writes nothing down where its deletion fails",
        "features/scrub/scrub_effects.py",
        "            note_problem(batch.trail.end(fates_of(batch.segments, None if batch.failures is None else left)))\n",
        "            if batch.failures is not None:\n                note_problem(batch.trail.end(fates_of(batch.segments, left)))\n",
        "features/scrub/test_scrub_plan.py::test_a_deletion_that_fails_leaves_an_unknown_outcome_in_the_audit_log",
    ),
    Mutation(
        LOG,
        "does not write down what became of what a scrub had deleted before an error",
        "features/scrub/scrub_cleaner.py",
        "        except BaseException:\n"
        "            # What is gone is written down, even if the time of the task is over.\n"
        "            self._confirm(report)\n",
        "        except BaseException:\n",
        "features/scrub/test_scrub_plan.py::test_an_error_between_two_batches_leaves_nothing_unconfirmed",
    ),
    Mutation(
        LOG,
        "lets the fate of any number of objects wait for the end of a folder",
        "features/scrub/scrub_effects.py",
        "        return self._unconfirmed >= MOST_UNCONFIRMED if is_late else self._unconfirmed > 0",
        "        return not is_late and self._unconfirmed > 0",
        "features/scrub/test_scrub_plan.py::test_where_absence_takes_the_whole_folder_it_is_confirmed_once_behind_the_last_batch",
    ),
    switched_off(
        FILES,
        LOG,
        "what does not read back replaces the files of the batches",
        '    if read_file(f"{uri}/{name}", len(data)).to_pybytes() != bytes(data) or '
        "_read(uri, name).num_rows != rows.num_rows:",
        f"{TESTS}::test_what_does_not_read_back_removes_nothing",
    ),
    Mutation(
        LOG,
        "a file of another run is put together with its rows",
        FILES,
        "        if value is not None and pc.unique(rows[column]).to_pylist() != [value]:",
        "        if False:",
        f"{TESTS}::test_a_file_that_is_not_what_its_name_says_is_not_compacted",
    ),
    Mutation(
        OLD,
        "a plan that may still be applied goes",
        PRUNING,
        "        if self.expires_at_ms is not None and self.expires_at_ms > now_ms:",
        "        if False:",
        f"{KEEPING}::test_a_plan_that_has_not_expired_stays",
    ),
    Mutation(
        OLD,
        "the newest run of a DAG goes",
        PRUNING,
        "        return newest.get(group_of(self.artifact), self.artifact) != self.artifact",
        "        return True",
        "overview/test_pruning.py::test_a_young_one_one_of_another_cluster_one_that_may_be_applied_and_the_newest_stay",
    ),
    Mutation(
        OLD,
        "runs of another cluster go",
        PRUNING,
        "        if self.cluster_id not in (None, cluster_id) or self.newest_ms >= cutoff:",
        "        if self.newest_ms >= cutoff:",
        f"{KEEPING}::test_runs_of_another_cluster_stay",
    ),
    Mutation(
        OLD,
        "a folder with files of others goes",
        HOUSEKEEPING,
        "    if not files or not all(map(is_file_of_run, files)):",
        "    if not files:",
        f"{KEEPING}::test_what_is_not_recognised_stays",
    ),
    Mutation(
        OLD,
        "a folder with an inventory goes, whatever else lies beside it",
        HOUSEKEEPING,
        '        and all(map(is_file_of_generation, list_files(f"{uri}/{name}")))\n',
        "",
        f"{KEEPING}::test_what_is_not_recognised_stays",
    ),
    switched_off(
        HOUSEKEEPING,
        OLD,
        "a folder goes whose documents are another run's",
        "            if said[0] != name:",
        f"{KEEPING}::test_what_is_not_recognised_stays",
    ),
    Mutation(
        OLD,
        "the scrub that the next one compares with goes",
        HOUSEKEEPING,
        """ and f'"{name}"' not in latest""",
        "",
        f"{KEEPING}::test_the_scrub_that_the_next_one_compares_with_stays",
    ),
    Mutation(
        OLD,
        "a worker in the future removes all",
        HOUSEKEEPING,
        '        now_ms = min(clock(), _time_of_storage(f"{work_uri}/{artifact}", clock()))',
        "        now_ms = clock()",
        f"{KEEPING}::test_a_worker_in_the_future_removes_nothing",
    ),
]
