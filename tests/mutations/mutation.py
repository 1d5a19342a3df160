# SPDX-License-Identifier: Apache-2.0
"""One small break of the code, and who must notice it."""

from __future__ import annotations

from dataclasses import dataclass

PUBLICATION = "library/publication.py"
WRITE_GUARD = "core/log/write_guard.py"
EVENT_ENCODING = "core/log/event_encoding.py"
COPY_GUARD = "core/log/copy_guard.py"
LOG_TAIL = "core/log/log_tail.py"
FOLLOWER = "core/log/follower.py"
ABSENCE = "core/world/absence.py"
FILE_SYSTEMS = "core/base/file_systems.py"
LOCAL_WRITING = "core/base/local_writing.py"
PLAN_FILES = "core/plans/plan_files.py"
GUARDS = "core/plans/guards.py"
PLAN = "core/plans/plan.py"
DELETION_PLAN = "core/plans/deletion_plan.py"
STRICT_JSON = "core/base/strict_json.py"
VALUES = "core/base/values.py"
HISTORY = "core/records/history.py"
PARTITION_DELETION = "core/records/deletion.py"
CLOCK = "core/base/clock.py"
PROVEN_TIME = "core/world/proven_time.py"
KAFKA_TIME = "core/log/kafka/broker_time.py"
LOST_RECORDS = "core/records/lost_records.py"
EVENT_DECODING = "core/log/event_decoding.py"
ROOT_PROOF = "core/world/root_proof.py"
WHOLENESS = "core/world/wholeness.py"
BATCHES = "features/cleanup/batches.py"
ELIGIBILITY = "features/cleanup/eligibility.py"
PARTITION_WORK = "features/cleanup/partition_work.py"
PUBLISHING = "features/cleanup/publishing.py"
CLEANER = "features/cleanup/cleaner.py"
MARKER = "features/cleanup/marker.py"
REPLAY = "core/world/replay.py"
PLANNER = "features/cleanup/planner.py"
LOOK = "core/world/cluster_look.py"
EFFECTS = "core/world/effects.py"
CLUSTER_STATE = "core/world/cluster_state.py"
OBSERVING = "core/world/cluster_look.py"
RETENTION_OPERATORS = "operators/retention.py"
TASK_FOLDER = "operators/task_folder.py"
DELETION = "core/storage/deletion.py"
LAYOUT_STORAGE = "core/storage/layout_storage.py"


@dataclass(frozen=True, slots=True)
class Mutation:
    """
    :param promise: what it breaks: an invariant, or a rule.
    :param name: what the broken code does.
    :param file: below ``airflow_provider_rlmm``.
    :param old: text that is there exactly once.
    :param new: what takes its place.
    :param test: what must fail, below ``tests/unit``: a test, or any of a file's; empty where only the simulation sees it.
    :param simulated: whether the simulation must see it too.
    """

    promise: str
    name: str
    file: str
    old: str
    new: str
    test: str = ""
    simulated: bool = False


def switched_off(
    file: str, promise: str, name: str, condition: str, test: str = "", *, simulated: bool = False
) -> Mutation:
    """
    Return a mutation whose check never holds.

    :param condition: the whole line of the ``if``.
    """
    indent = condition[: len(condition) - len(condition.lstrip())]
    return Mutation(promise, name, file, condition, f"{indent}if False:", test, simulated)
