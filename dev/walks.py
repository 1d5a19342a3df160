# SPDX-License-Identifier: Apache-2.0
"""
How far a reader has to walk: some paths through the package, from room to room.

Each walk names its steps. That one leads to the next is read from the code: one of the two names the other, or they are a
class and its method. Where a value is handed on that both sides read, the walk says so. ``python -m dev.walks`` writes the
table into ``docs/architecture.md``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "airflow_provider_rlmm"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- walks: made by python -m dev.walks -->\n", "<!-- end of walks -->\n"


@dataclass(frozen=True, slots=True)
class Walk:
    """
    A path through the package.

    :param name: from what to what.
    :param most: rooms that it may enter.
    :param steps: ``module:name``, the module below the package; a template is its path.
    :param again: room that is entered twice on purpose → why.
    :param handed: names of two steps between which a value is handed on, without a call.
    """

    name: str
    most: int
    steps: Sequence[str]
    again: Mapping[str, str] = field(default_factory=dict)
    handed: frozenset[tuple[str, str]] = frozenset()

    def rooms(self) -> list[str]:
        """Return the rooms in the order of the walk."""
        return [room for room, _ in groupby(map(room_of, self.steps))]

    def broken(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs of steps of which the code does not say that one leads to the other."""
        for one, other in pairwise(self.steps):
            handed = (_name(one), _name(other)) in self.handed
            if not (leads(one, other) or leads(other, one) or handed or other.startswith(f"{one}.")):
                yield one, other


WALKS = (
    Walk(
        "a record of the topic → the deletion of an object",
        8,
        (
            "core.log.kafka.event_log:KafkaMetadataLogReader.read_many",
            "core.log.follower:LogFollower.read_on",
            "core.log.follower:LogFollower.chunks",
            "core.log.follower:LogFollower.advance",
            "core.log.follower:Chunk.decode",
            "core.log.event_decoding:decode_records",
            "core.records.decoding.decode:decode",
            "core.records.decoding.decode:iter_events",
            "core.records.located:located_events",
            "core.records.located:located_records",
            "core.world.replay:MetadataPartitionReplay._good_records",
            "core.world.replay:MetadataPartitionReplay._apply_all",
            "core.world.replay:MetadataPartitionReplay.advance",
            "features.cleanup.cleaner:RemoteLogCleaner._replayed",
            "features.cleanup.cleaner:RemoteLogCleaner.clean",
            "features.cleanup.batches:BatchCleaner.clean",
            "features.cleanup.batches:BatchCleaner._clean",
            "features.cleanup.batches:BatchCleaner._delete_segments",
            "features.cleanup.batches:BatchCleaner._delete_and_finish",
            "features.cleanup.batches:BatchCleaner._delete",
            "core.world.effects:RealEffects.delete",
            "core.storage.layout_storage:LayoutRemoteStorageManager.delete_log_segments",
            "core.storage.object_store:_ObstoreCalls.delete",
            "core.storage.bulk_delete:BulkDeletion.delete",
        ),
        {"core.world": "whether anything may be written is asked once more, right before the objects go"},
        frozenset({("decode", "iter_events")}),  # the columns
    ),
    Walk(
        "`storage_uri` → the call that deletes",
        6,
        (
            "hooks.connection:RlmmHook.read_connection_settings",
            "hooks.connection:RlmmConnection.from_connection",
            "core.runs.settings:read_fields",
            "core.runs.settings:RemoteLogSettings",
            "core.runs.settings:RemoteLogSettings.required_storage_uri",
            "core.runs.storage_access:StorageAccess.get_storage_manager",
            "core.storage.object_store:ObjectStoreRemoteStorageManager",
            "core.storage.object_store:_ObstoreCalls",
            "core.storage.object_store:_ObstoreCalls.delete",
            "core.storage.bulk_delete:BulkDeletion.delete",
        ),
    ),
    Walk(
        "`dry_run` in the form → what is done, or only said",
        5,
        (
            "dag_factory.params:of_dry_run",
            "dag_factory.cleaner:_params",
            "dag_factory.cleaner:remote_log_cleaner",
            "dag_factory.cleaner:_tasks",
            "dag_factory.cleaner:cleanup_tasks",
            "operators.cleaner:CleanMetadataPartitionOperator",
            "operators.cleaner:CleanMetadataPartitionOperator.execute",
            "features.cleanup.steps:clean",
            "features.cleanup.steps:_effects",
            "core.world.effects:DryRunEffects",
        ),
    ),
    Walk(
        "a field of the cleanup report → its page",
        3,
        (
            "features.cleanup.report_document:CleanupReport",
            "features.cleanup.report_document:read_report",
            "plugins.pages:DOCUMENT_PAGES",
            "plugins.pages:report_page",
            "plugins/templates/report.html",
        ),
    ),
    Walk(
        "a log directory → a copied object",
        5,
        (
            "features.copying.log_directory.partition:LogDirectory",
            "features.copying.copy_source:DirectorySource",
            "features.copying.steps:_copy_partition",
            "features.copying.copy_effects:RealCopyEffects.copy",
            "features.copying.copier:RemoteLogCopier.copy",
            "features.copying.copier:RemoteLogCopier._copy_all",
            "features.copying.segment_copy:SegmentCopier.copy",
            "features.copying.segment_copy:SegmentCopier._transfer",
            "features.copying.copy_writer:CopyWriter.copy",
            "core.storage.layout_storage:LayoutRemoteStorageManager.copy_log_segment_data",
            "core.storage.object_store:_ObstoreCalls.put",
        ),
    ),
)


def room_of(step: str) -> str:
    """
    Return the room of a step: a folder of the face, a feature, a room of the core.

    :param step: of a walk.
    """
    parts = step.partition(":")[0].replace("/", ".").split(".")
    return ".".join(parts[: 2 if parts[0] in ("core", "features") else 1])


def leads(one: str, other: str) -> bool:
    """
    Tell whether the code of a step names another one.

    :param one: whose code is read.
    :param other: which must be named there.
    """
    if not _exists(other):
        raise LookupError(f"there is no {other}")
    return _exists(one) and _name(other) in _names_in(one)


def _name(step: str) -> str:
    return Path(step).name if "/" in step else step.rpartition(".")[2].rpartition(":")[2]


def _exists(step: str) -> bool:
    return (PACKAGE / step).is_file() if "/" in step else _definition(step) is not None


@cache
def _names_in(step: str) -> frozenset[str]:
    """Return every name, attribute and text of one word that the code of a step has, but not its own name."""
    node = _definition(step)
    if node is None:
        return frozenset()
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    found |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    found |= {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return frozenset(found)


def _definition(step: str) -> ast.AST | None:
    if "/" in step:
        return None
    module, _, names = step.partition(":")
    node: ast.AST | None = _parsed(module)
    for name in names.split("."):
        body = getattr(node, "body", [])
        node = next((found for found in body if _defines(found, name)), None)
    return node


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())


def table() -> str:
    """Return the table of the walks."""
    lines = ["| from → to | rooms | modules | through | entered again, on purpose |", "|---|---|---|---|---|"]
    for walk in WALKS:
        rooms = walk.rooms()
        again = "; ".join(f"`{room}`: {why}" for room, why in walk.again.items())
        through = " → ".join(f"`{room}`" for room in rooms)
        modules = len({step.partition(":")[0] for step in walk.steps})
        lines.append(f"| {walk.name} | {len(rooms)} of at most {walk.most} | {modules} | {through} | {again} |")
    return "".join(f"{line}\n" for line in lines)


def page() -> str:
    """Return the text of the page, with the table as the code has it."""
    whole = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return whole.sub(lambda _: f"{BEGIN}{table()}{END}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
