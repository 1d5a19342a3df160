# SPDX-License-Identifier: Apache-2.0
"""
What commands that ask no cluster take from the start of their process to its end: processor time.

Beside them an interpreter that does nothing, which is the least that any Python command takes. Prints one line per budget;
ends with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from uuid import UUID

from airflow_provider_rlmm.core.records.records import RemotePartitionDeleteMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from benchmarks.measuring import RLMM, Budget, Effort, in_turns, process_effort, within
from benchmarks.reporting import add_option, report

TIP = TopicIdPartition(UUID(int=7), "orders", 0)
VALUE = serialize(RemotePartitionDeleteMetadata(TIP, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 0, 1))
COMMANDS = {"rlmm --help": ([RLMM, "--help"], 0.25), "rlmm decode": ([RLMM, "decode", VALUE.hex()], 0.7)}
"""Name → command, and the most CPU time that it may take, s."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="runs of each command (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    return report(_measured(arguments.runs), arguments.figures)


def _measured(runs: int) -> Iterator[Budget]:
    commands = [[sys.executable, "-c", ""], *(command for command, _ in COMMANDS.values())]
    nothing, *each = in_turns([lambda command=command: process_effort(command) for command in commands], runs)
    for (name, (_, most)), efforts in zip(COMMANDS.items(), each, strict=True):
        yield _at_most(name, most, efforts, nothing)


def _at_most(name: str, most: float, ours: list[Effort], nothing: list[Effort]) -> Budget:
    cpu, least = ([effort.cpu_seconds for effort in efforts] for efforts in (ours, nothing))
    clock = statistics.median(effort.seconds for effort in ours)
    told = f"{statistics.median(cpu):.2f} s of CPU time, {clock:.2f} s by the clock"
    return within(f"{name}, CPU, of {most:g} s", cpu, most, [told], least)


if __name__ == "__main__":
    sys.exit(main())
