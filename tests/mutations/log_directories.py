# SPDX-License-Identifier: Apache-2.0
"""Mutations that take a log directory for what it is not: held, incomplete, damaged, or of another lineage."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

_LOCK = "features/copying/log_directory/broker_lock.py"
_DISK = "features/copying/log_directory/disk.py"
_PARTITION = "features/copying/log_directory/partition.py"
_SNAPSHOT = "features/copying/log_directory/snapshot.py"
_VERIFICATION = "features/copying/log_directory/verification.py"
_TEXTS = "features/copying/log_directory/text_files.py"

_DISKS = "features/copying/test_log_disk.py::"
_DIRECTORIES = "features/copying/test_log_directory.py::"
_SNAPSHOTS = "features/copying/test_disk_snapshot.py::"
_VERIFIED = "features/copying/test_segment_verification.py::"

LOG_DIRECTORIES = [
    Mutation(
        "log directory",
        "opens the disk of a running broker",
        _LOCK,
        "        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
        "        pass\n",
        f"{_DISKS}test_a_running_broker_s_disk_is_refused_and_one_that_died_is_not",
    ),
    switched_off(
        _LOCK,
        "log directory",
        "a broker that starts during the snapshot stays unnoticed",
        "        if lock is None:",
        f"{_DISKS}test_a_broker_that_starts_meanwhile_is_noticed",
    ),
    switched_off(
        _DISK,
        "log directory",
        "follows a link to another folder",
        "        if is_link:",
        f"{_DISKS}test_a_link_to_another_folder_is_passed_over",
    ),
    switched_off(
        _TEXTS,
        "log directory",
        "believes a checkpoint that was cut",
        "    if len(offsets) != int(lines[1]):",
        f"{_DISKS}test_what_is_no_disk_or_a_damaged_one_is_refused",
    ),
    switched_off(
        _TEXTS,
        "log directory",
        "takes the id of zeros for a topic's",
        "    if topic_id.int == 0:",
        f"{_DIRECTORIES}test_a_directory_in_doubt_is_refused",
    ),
    Mutation(
        "log directory",
        "takes files that the log cleaner has not put in their place for segments",
        _PARTITION,
        "                    _refuse_unfinished(Path(entry.path), name.rest)\n",
        "                    continue\n",
        f"{_DIRECTORIES}test_a_directory_in_doubt_is_refused",
    ),
    switched_off(
        _PARTITION,
        "log directory",
        "does not notice that a file has changed",
        "        if (now.st_size, now.st_mtime_ns) != (self.size_in_bytes, self.modified_ns):",
        f"{_DIRECTORIES}test_a_file_that_changes_or_goes_is_noticed",
    ),
    Mutation(
        "log directory",
        "copies the segment that the broker appended to",
        _PARTITION,
        "                for base, following in pairwise(bases)\n",
        "                for base, following in pairwise([*bases, bases[-1] + 1])\n",
        f"{_DIRECTORIES}test_it_knows_its_topic_id_its_lineage_and_its_closed_segments",
    ),
    Mutation(
        "log directory",
        "takes the producer snapshot of the segment's own base offset",
        _PARTITION,
        "producer_snapshot=files.get(segment_file_name(following, PRODUCER_SNAPSHOT_SUFFIX))",
        "producer_snapshot=files.get(segment_file_name(base, PRODUCER_SNAPSHOT_SUFFIX))",
        f"{_DIRECTORIES}test_it_knows_its_topic_id_its_lineage_and_its_closed_segments",
    ),
    Mutation(
        "log directory",
        "the lineage begins below the log start offset",
        _PARTITION,
        "return leader_epochs if log_start_offset is None else leader_epochs.truncate_from_start(log_start_offset)",
        "return leader_epochs",
        f"{_DIRECTORIES}test_the_log_start_offset_cuts_the_lineage_and_what_lies_below_it",
    ),
    Mutation(
        "log directory",
        "a snapshot loses the modification times",
        _SNAPSHOT,
        "    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))\n",
        "",
        f"{_SNAPSHOTS}test_it_shows_all_that_a_broker_would_keep_with_its_times",
    ),
    switched_off(
        _SNAPSHOT,
        "log directory",
        "a broker has run during the snapshot, and it passes for whole",
        "            if _last_shutdown(source) != before:",
        f"{_SNAPSHOTS}test_a_broker_that_runs_meanwhile_makes_it_void",
    ),
    Mutation(
        "log directory",
        "copies batches whose checksums are wrong",
        _VERIFICATION,
        "        chunk.headers.verify_checksums(chunk.data)\n",
        "",
        f"{_VERIFIED}test_a_damaged_log_is_named_with_its_position",
    ),
    Mutation(
        "log directory",
        "records of transactions that are not decided pass for decided ones where no leader is asked",
        "features/copying/log_directory/log_end.py",
        "return end if first_open is None else min(end, first_open)",
        "return end",
        "features/copying/test_lineage_records.py::test_without_a_leader_it_ends_where_something_is_undecided",
    ),
    Mutation(
        "log directory",
        "an end marker, which no consumer is given, passes for a record that proves a lineage",
        "features/copying/log_directory/lineage_records.py",
        "        records = chunk.headers[before & ~chunk.headers.is_control]\n",
        "        records = chunk.headers[before]\n",
        "features/copying/test_lineage_records.py::test_between_two_offsets",
    ),
]
