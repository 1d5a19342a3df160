# SPDX-License-Identifier: Apache-2.0
"""The command that copies log directories of brokers that do not copy themselves: copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, option_of, with_confirmation, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import begin, execute_option, open_session
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.features.copying.rules import (
    BYTES_PER_SECOND,
    LEASE,
    MAX_SEGMENTS,
    NAMED_OVERRIDES,
    CopyLimits,
)

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.floored_log import Confirmation


@command()
@click.argument("log_dir", metavar="LOG_DIR", type=click.Path(path_type=Path))
@click.argument("topic", metavar="TOPIC")
@click.argument("partition", type=click.IntRange(0), required=False)
@click.option(
    "--snapshot-in",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Where the snapshot is taken: on the same file system it takes no space.  [default: the folder above LOG_DIR]",
)
@option_of(BYTES_PER_SECOND, in_bounds=True)
@option_of(MAX_SEGMENTS, in_bounds=True)
@option_of(LEASE, in_bounds=True, has_default=True, help=f"{LEASE.sentence}.")
@option_of(NAMED_OVERRIDES, option="--override")
@execute_option
@with_confirmation
@with_storage
def copy(
    invocation: Invocation,
    log_dir: Path,
    topic: str,
    partition: int | None,
    snapshot_in: Path | None,
    bytes_per_second: int | None,
    max_segments: int | None,
    lease_ms: int,
    overrides: tuple[str, ...],
    execute: bool,
    confirm: Confirmation,
) -> int:
    """
    Copy the closed segments of a living topic from one of a stopped broker's LOG_DIRs into remote storage.

    It is for a topic whose leader does not copy: remote.log.copy.disable is on. Brokers go on from there once it is off.
    """
    from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
    from airflow_provider_rlmm.features.copying.steps import copy_topic

    run = begin(invocation, "copy", execute=execute)
    limits = CopyLimits(
        lease_ms=lease_ms,
        bytes_per_second=bytes_per_second,
        max_segments=max_segments,
        overrides=frozenset(overrides),
    )
    with (
        working() as shown,
        open_session(run.invocation, CleanerLimits(), shown, execute=execute, copy=execute, confirm=confirm) as session,
    ):
        done = copy_topic(
            session,
            run.uri,
            log_dir,
            topic,
            partitions=None if partition is None else [partition],
            snapshot_in=snapshot_in,
            limits=limits,
            metrics=RemoteLogMetrics(),
            dry_run=not execute,
        )
    if invocation.output.as_json:
        invocation.output.document(done.to_json())
    else:
        rows = (
            {"partition": p.partition, "segments": p.segments, "expiring": len(p.expiring), "stopped_by": p.stopped_by}
            for p in done.partitions
        )
        columns = {"partition": "partition", "segments": "segments", "expiring": "expiring", "stopped_by": "stopped by"}
        invocation.output.rows(rows, columns, "user partitions")
    verb = "were copied" if execute else "would be copied; --execute copies them"
    invocation.output.line(f"{number_of(done.segments, 'segment')}, {human_bytes(done.bytes)} {verb}")
    for hole in (p.hole_ahead for p in done.partitions):
        if hole is not None:
            invocation.output.line(hole)  # whole: a table cuts it
    if any(p.needs_person for p in done.partitions):
        return ExitCode.NEEDS_A_PERSON
    return ExitCode.UNAVAILABLE if done.unfinished(limits) else ExitCode.DONE


COMMANDS = (copy,)
