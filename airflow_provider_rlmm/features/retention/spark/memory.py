# SPDX-License-Identifier: Apache-2.0
"""
How much memory the Python of an executor needs beside its JVM, and whether Spark gives it.

YARN and Kubernetes end an executor that takes more than its heap and its overhead. What a task takes goes with the state of
its metadata partition, and how large that is stands in the manifest of the newest generation, before anything is started.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart

logger = logging.getLogger(__name__)

MIB: Final = 2**20
OVERHEAD: Final = "spark.executor.memoryOverhead"

PYTHON_BYTES: Final = 224 * MIB
"""The interpreter with pyarrow, numpy and PySpark, and a batch of records at work."""
JVM_BYTES: Final = 128 * MIB
"""What of an overhead is left to the JVM itself."""
PER_STATE_BYTE: Final = 2.75
"""Memory for each byte of a state file: its columns with room to grow, their indexes, what is left between them."""
PER_SEGMENT_BYTES: Final = 100
"""Beside the state, for each segment that lives: its place, its reason, its row while it is written."""

_BYTES_OF_NEW_SEGMENT: Final = 170
"""Of a state file, for a segment that is not in it yet, with a few leader epochs and custom metadata."""
_RECORDS_OF_SEGMENT: Final = 2
"""A broker writes as many for a segment that it has copied, and more once it deletes it."""

_LEAST_OVERHEAD: Final = 384 * MIB
_FACTOR, _FACTOR_ON_KUBERNETES = 0.1, 0.4
_FACTORS: Final = ("spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
_LEAST: Final = "spark.executor.minMemoryOverhead"
_FOR_PYTHON: Final = "spark.executor.pyspark.memory"
_SAID: Final = (OVERHEAD, *_FACTORS, _LEAST, _FOR_PYTHON)
_STEP: Final = 64 * MIB
_SIZE: Final = re.compile(r"([0-9]+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS: Final = {"k": 2**10, "": MIB, "m": MIB, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """What the Python of one task needs for the metadata partition that needs most."""

    bytes: int
    metadata_partition: int  # which one that is
    why: str  # what it was reckoned from

    @classmethod
    def of(cls, begin: Mapping[int, int], end: Mapping[int, int], before: Generation | None) -> TaskMemory:
        """
        Reckon from what is known before anything is read.

        :param begin: metadata partition → first offset that is there; one or more.
        :param end: metadata partition → high watermark.
        :param before: the generation to go on from; without one the offsets give an upper bound.
        """
        return max((_needed(p, begin[p], end[p], before) for p in sorted(end)), key=lambda found: found.bytes)


def _needed(number: int, begin: int, end: int, before: Generation | None) -> TaskMemory:
    part = None if before is None else before.parts.get(number)
    known = part or GenerationPart(begin)
    new = max(0, end - max(begin, known.next_offset))
    segments = -(-new // _RECORDS_OF_SEGMENT)
    state = sum(file.bytes for file in (known.state, known.changes) if file) + segments * _BYTES_OF_NEW_SEGMENT
    needed = PYTHON_BYTES + PER_STATE_BYTE * state + PER_SEGMENT_BYTES * (known.segments + segments)
    if before is None or part is None:
        why = (
            f"at most: as if its {number_of(new, 'offset was', 'offsets were')} "
            f"{number_of(segments, 'segment that lives', 'segments that all live')}"
        )
    else:
        why = (
            f"{number_of(part.segments, 'segment')} lived in generation {before.number}, and "
            f"{number_of(new, 'offset is', 'offsets are')} new"
        )
    return TaskMemory(round(needed), number, why)


@dataclass(frozen=True, slots=True)
class ExecutorMemory:
    """
    What Spark gives an executor beside its heap, as its properties say.

    :param master: of the Spark, such as ``yarn``.
    :param conf: Spark's properties.
    """

    master: str
    conf: Mapping[str, str]

    @property
    def is_limited(self) -> bool:
        """Whether a cluster manager ends executors that take more: YARN and Kubernetes do."""
        return self.master.startswith(("yarn", "k8s://"))

    @property
    def tasks(self) -> int:
        """How many tasks run at once: each has a Python of its own."""
        cores, each = (_number(self.conf.get(name), 1) for name in ("spark.executor.cores", "spark.task.cpus"))
        return max(1, int(cores // max(1, each)))

    @property
    def for_python(self) -> int:
        """Bytes for the Python of all tasks."""
        if given := _bytes(self.conf.get(_FOR_PYTHON)):
            return given
        return max(0, self._overhead - JVM_BYTES)

    @property
    def _overhead(self) -> int:
        if given := _bytes(self.conf.get(OVERHEAD)):
            return given
        default = _FACTOR_ON_KUBERNETES if self.master.startswith("k8s://") else _FACTOR
        factor = next((_number(self.conf[name], default) for name in _FACTORS if name in self.conf), default)
        heap = _bytes(self.conf.get("spark.executor.memory")) or 2**30
        return max(round(factor * heap), _bytes(self.conf.get(_LEAST)) or _LEAST_OVERHEAD)

    def needed_overhead(self, task: TaskMemory) -> str:
        """
        Return the overhead that is enough, as Spark reads it.

        :param task: what one task needs.
        """
        return f"{-(-(JVM_BYTES + self.tasks * task.bytes) // _STEP) * _STEP // MIB}m"

    def lacks(self, task: TaskMemory) -> bool:
        """Tell whether executors may be ended for their memory."""
        return self.is_limited and self.for_python < self.tasks * task.bytes

    def to_ask(self, task: TaskMemory) -> dict[str, str]:
        """
        Return the properties to submit a job with; none where Spark gives enough, or where the settings say how much.

        :param task: what one task needs.
        """
        if any(self.conf.get(name) for name in _SAID) or not self.lacks(task):
            return {}
        return {OVERHEAD: self.needed_overhead(task)}

    def said_of(self, task: TaskMemory) -> str:
        """
        Return in words what executors need, and where they have less, what to do.

        :param task: what one task needs.
        """
        where = f"metadata partition {task.metadata_partition}"
        needs = f"memory: for {where} a task's Python needs {_mib(task.bytes)} ({task.why})"
        if not self.is_limited:
            return f"{needs}; nothing limits it here, so the machine must have it beside the JVM for each task at once"
        has = f"executors have {_mib(self.for_python)} for {self.tasks} at once"
        if not self.lacks(task):
            return f"{needs}; {has}"
        name, size = OVERHEAD, self.needed_overhead(task)
        if self.conf.get(_FOR_PYTHON):
            name, size = _FOR_PYTHON, f"{-(-self.tasks * task.bytes // _STEP) * _STEP // MIB}m"
        return f"{needs}; {has}, and may be killed for taking more: submit the job with --conf {name}={size}"


def say_memory(executors: ExecutorMemory, task: TaskMemory) -> None:
    """
    Log what executors need: a warning where they have less.

    :param executors: what they have.
    :param task: what one task needs.
    """
    logger.log(logging.WARNING if executors.lacks(task) else logging.INFO, "%s", executors.said_of(task))


def _mib(size: int) -> str:
    return f"{-(-size // MIB):,} MiB"


def _bytes(text: str | None) -> int | None:
    """Return a size that Spark was told, in MiB where it names no unit; ``None`` where there is none that is understood."""
    found = _SIZE.fullmatch((text or "").strip())
    return None if found is None else int(found[1]) * _UNITS[found[2].lower()]


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default
