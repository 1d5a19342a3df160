# SPDX-License-Identifier: Apache-2.0
"""``rlmm read --output`` and ``rlmm copy`` as people call them, and the peer of the first: from start to end of a process."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from benchmarks.measuring import RLMM, Effort, process_effort
from dev.broker import LocalKafka

PEER = str(Path(__file__).with_name("parquet_consumer.py"))


def read(
    kafka: LocalKafka,
    tip: TopicIdPartition,
    records: int,
    uri: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Effort:
    """
    Read a user partition into Parquet, by a command that has read nothing before.

    :param kafka: the broker.
    :param tip: the user partition.
    :param records: how many it has.
    :param uri: root of the storage, ``None`` for the broker's folder.
    :param options: of the store.
    """
    with _settings(kafka, uri or kafka.remote_dir.as_uri(), options or {}) as settings:
        folder = settings.parent / "out"
        effort = process_effort([RLMM, "read", tip.topic, "--output", str(folder), "--config", str(settings)])
        assert pq.read_metadata(folder / "partition-0.parquet").num_rows == records
    return effort


def consume(kafka: LocalKafka, tip: TopicIdPartition, records: int) -> Effort:
    """
    Read it through the broker, and write the same file.

    :param kafka: the broker.
    :param tip: the user partition.
    :param records: how many it has.
    """
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        file = Path(folder, "partition-0.parquet")
        command = [sys.executable, PEER, kafka.bootstrap_servers, tip.topic, str(records), str(file)]
        effort = process_effort(command)
        assert pq.read_metadata(file).num_rows == records
    return effort


def copy(kafka: LocalKafka, log_dir: Path, tip: TopicIdPartition, root: str) -> Effort:
    """
    Copy all closed segments of a user partition.

    :param kafka: the broker, which leads it.
    :param log_dir: the log directory of a stopped broker.
    :param tip: the user partition.
    :param root: the storage root, as ``rlmm check`` prints it.
    """
    with _settings(kafka, kafka.remote_dir.as_uri(), {}) as settings:
        given = ["--execute", "--cluster-id", kafka.cluster_id, "--expected-root", root, "--config", str(settings)]
        return process_effort([RLMM, "copy", str(log_dir), tip.topic, *given])


@contextmanager
def _settings(kafka: LocalKafka, uri: str, options: Mapping[str, str]) -> Iterator[Path]:
    """Write a file of settings, with a work folder in which nobody has worked before."""
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        said = {"bootstrap_server": kafka.bootstrap_servers, "storage_uri": uri, "work_uri": f"{folder}/work"}
        lines = [f'{name} = "{value}"' for name, value in said.items()]
        lines += ["[store]", *(f'{name} = "{value}"' for name, value in options.items())]
        settings = Path(folder, "settings.toml")
        settings.write_text("\n".join(lines))
        yield settings
