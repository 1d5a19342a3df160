# SPDX-License-Identifier: Apache-2.0
"""What commands share that take a catalogue in the place of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange

if TYPE_CHECKING:
    from airflow_provider_rlmm.cli.options import Invocation
    from airflow_provider_rlmm.cli.runs import Run
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked, CatalogueReader
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog

_OPTIONS = (
    click.option(
        "--catalogue",
        metavar="FOLDER",
        help="Read what a catalogue of 'rlmm recover' names; the lost cluster is not asked. The setting "
        "allow_catalogue must name the topic.",
    ),
    click.option(
        "--was-not-deleted",
        metavar="ID",
        multiple=True,
        help="With --catalogue: you know that this topic id was not deleted, which no bucket can know.",
    ),
    click.option(
        "--deleted",
        metavar="FILE",
        help="With --catalogue: ids of topics and segments that were erased, one a line; they are never read.",
    ),
    click.option(
        "--lineage",
        "lineages",
        metavar="ID",
        multiple=True,
        help="With --catalogue: read by the lineage that this segment keeps. Without it the one with the highest last leader "
        "epoch that covers the range is read.",
    ),
)


def with_catalogue(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a catalogue, as ``catalogue``: ``None`` where a cluster is asked."""

    @wraps(command)
    def catalogued(
        *args: Any,
        catalogue: str | None,
        was_not_deleted: tuple[str, ...],
        deleted: str | None,
        lineages: tuple[str, ...],
        **given: Any,
    ) -> Any:
        from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked

        if catalogue is None and (was_not_deleted or deleted or lineages):
            raise click.UsageError(
                "--was-not-deleted, --deleted and --lineage are about a catalogue: give --catalogue, too"
            )
        asked = None
        if catalogue is not None:
            asked = CatalogueAsked(
                uri=catalogue,
                was_not_deleted=was_not_deleted,
                deleted=deleted,
                lineages=lineages,
                or_doubtful=True,
            )
        return command(*args, catalogue=asked, **given)

    decorated: Callable[..., Any] = catalogued
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def reader_of(run: Run) -> CatalogueReader:
    """
    Return who reads a catalogue, for the audit log of the work folder.

    :param run: of the command.
    """
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueReader

    return CatalogueReader(run=run.identity, work_uri=run.work_uri, what=run.identity.dag_id)


def open_catalogue(
    invocation: Invocation,
    asked: CatalogueAsked,
    run: Run,
    topic: str,
    partitions: tuple[int, ...] | None,
    *,
    wanted: ReadRange,
    isolation: ReadIsolation,
    bytes_per_second: int | None = None,
) -> CataloguedLog:
    """
    Return what a catalogue has of a topic, on the audit log of the work folder.

    :param invocation: what the command was told.
    :param asked: the catalogue, and what the person says with it.
    :param run: of the command.
    :param topic: id of the topic, or its name.
    :param partitions: of the topic, ``None`` for all.
    :param wanted: which records of each.
    :param isolation: by which they are read.
    :param bytes_per_second: the most that is fetched in a second.
    """
    from airflow_provider_rlmm.features.reading.catalogue_steps import open_catalogued_log

    return open_catalogued_log(
        invocation.storage_access(),
        asked,
        reader_of(run),
        topic,
        partitions,
        wanted=lambda _: wanted,
        isolation=isolation,
        bytes_per_second=bytes_per_second,
    )
