# SPDX-License-Identifier: Apache-2.0
"""Folders as brokers leave them, made by hand: small, and wrong in whatever way a test wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.metadata.records import kafka_uuid_str

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TOPIC_ID = UUID(int=0x5EED)
SUFFIXES = (".log", ".index", ".timeindex")


def checkpoint(*lines: str) -> str:
    """A checkpoint file with some entries."""
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))


@dataclass
class HandmadeDisk:
    """One of a broker's ``log.dirs``, which every method changes."""

    path: Path
    properties: dict[str, str] = field(
        default_factory=lambda: {
            "version": "1",
            "cluster.id": CLUSTER_ID,
            "node.id": "1",
            "directory.id": kafka_uuid_str(UUID(int=7)),
        }
    )

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}" for name, value in self.properties.items()]
        (self.path / "meta.properties").write_text("\n".join(["#", "#Mon Nov 23 08:00:00 UTC 2026", *lines, ""]))

    def add(
        self,
        name: str,
        bases: tuple[int, ...] = (0,),
        *,
        topic_id: UUID = TOPIC_ID,
        epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    ) -> Path:
        """A directory of a user partition, whose segments hold their names only."""
        folder = self.path / name
        folder.mkdir()
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {kafka_uuid_str(topic_id)}\n")
        (folder / "leader-epoch-checkpoint").write_text(checkpoint(*(f"{e} {o}" for e, o in epochs)))
        for base in bases:
            for suffix in SUFFIXES:
                content = b"" if suffix == ".timeindex" else f"{name}{base}{suffix}".encode()
                (folder / f"{base:020d}{suffix}").write_bytes(content)
        for base in bases[1:]:
            (folder / f"{base:020d}.snapshot").write_bytes(f"{name}{base}".encode())
        return folder
