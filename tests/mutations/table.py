# SPDX-License-Identifier: Apache-2.0
"""All mutations, and the table of them that docs/proofs.md prints."""

from __future__ import annotations

from tests.mutations.alarms import ALARMS
from tests.mutations.answers import ANSWERS
from tests.mutations.approvals import APPROVALS
from tests.mutations.archiving import ARCHIVING
from tests.mutations.attention import NEEDS_A_PERSON
from tests.mutations.audit import AUDIT
from tests.mutations.brokers import BROKERS
from tests.mutations.catalogued import CATALOGUED
from tests.mutations.clocks import CLOCKS
from tests.mutations.command import COMMAND
from tests.mutations.contents import CONTENTS
from tests.mutations.copying import COPYING
from tests.mutations.documents import FORMS
from tests.mutations.eras import ERAS
from tests.mutations.expiration import EXPIRATION
from tests.mutations.first_aid import FIRST_AID
from tests.mutations.generations import GENERATIONS
from tests.mutations.inputs import INPUTS
from tests.mutations.invariants import INVARIANTS
from tests.mutations.kill_switch import KILL_SWITCH
from tests.mutations.leader_walk import LEADER_WALK
from tests.mutations.living_leader import LIVING_LEADER
from tests.mutations.log_directories import LOG_DIRECTORIES
from tests.mutations.lost_records import LOST_RECORDS
from tests.mutations.merging import MERGING
from tests.mutations.mutation import Mutation
from tests.mutations.narrowed import NARROWED
from tests.mutations.reading import READING
from tests.mutations.recovery import RECOVERY
from tests.mutations.remote_log import REMOTE_LOG
from tests.mutations.restoring import RESTORED
from tests.mutations.rules import RULES
from tests.mutations.scrub import SCRUBS
from tests.mutations.second_tries import SECOND_TRIES
from tests.mutations.secrets import SECRETS
from tests.mutations.segment_storage import SEGMENT_STORAGE
from tests.mutations.spark import SPARK
from tests.mutations.spark_stores import SPARK_STORES
from tests.mutations.storage_root import STORAGE_ROOT
from tests.mutations.store_access import STORE_ACCESS
from tests.mutations.stores import STORES
from tests.mutations.watched_runs import WATCHED_RUNS
from tests.mutations.watching import WATCHING
from tests.mutations.whole_records import WHOLE_RECORDS

MUTATIONS = [
    *INVARIANTS,
    *STORAGE_ROOT,
    *STORES,
    *STORE_ACCESS,
    *SEGMENT_STORAGE,
    *NEEDS_A_PERSON,
    *RULES,
    *LOST_RECORDS,
    *ERAS,
    *CLOCKS,
    *LIVING_LEADER,
    *REMOTE_LOG,
    *SECRETS,
    *SPARK,
    *SPARK_STORES,
    *EXPIRATION,
    *LEADER_WALK,
    *GENERATIONS,
    *MERGING,
    *SCRUBS,
    *RECOVERY,
    *CATALOGUED,
    *FIRST_AID,
    *KILL_SWITCH,
    *AUDIT,
    *ARCHIVING,
    *RESTORED,
    *COMMAND,
    *INPUTS,
    *FORMS,
    *WATCHING,
    *APPROVALS,
    *NARROWED,
    *SECOND_TRIES,
    *ALARMS,
    *WATCHED_RUNS,
    *COPYING,
    *WHOLE_RECORDS,
    *LOG_DIRECTORIES,
    *CONTENTS,
    *READING,
    *ANSWERS,
    *BROKERS,
]


def as_markdown() -> str:
    """Return the table, one row per mutation."""
    rows = [f"| {m.promise} | {m.name} | `{m.file}` | {_catchers(m)} |" for m in MUTATIONS]
    return "\n".join(["| breaks | the broken code | in | noticed by |", "|---|---|---|---|", *rows, ""])


def _catchers(mutation: Mutation) -> str:
    file, _, test = mutation.test.partition("::")
    function = test.rpartition("::")[2]
    named = [f"`{file}`: {function.removeprefix('test_').replace('_', ' ') or 'its contract'}"] if file else []
    return "; ".join([*named, *(["simulation"] if mutation.simulated else [])])
