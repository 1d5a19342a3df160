# SPDX-License-Identifier: Apache-2.0
"""
What the last task of a run does for the work folder: it puts the run's files of the audit log together, and removes old runs.

It deletes nothing but documents of this package. An error is a line in the log: the next run tries again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import NamedTuple

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.base.file_systems import (
    list_files,
    list_folders,
    modified_ms,
    read_file,
    remove_file,
    remove_folder,
)
from airflow_provider_rlmm.core.base.work_folder import (
    DOCTOR_DOCUMENT,
    REPORT_DOCUMENT,
    cluster_folder,
    is_cluster_folder,
)
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.plans.plan import SUMMARY_NAME, PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_document
from airflow_provider_rlmm.core.world.audit import AUDIT_FOLDER, day_of, is_audit_file, is_day
from airflow_provider_rlmm.core.world.audit_files import compact
from airflow_provider_rlmm.features.contents.report_document import CONTENTS_DOCUMENT, ContentsReport
from airflow_provider_rlmm.features.scrub.scrub_files import LATEST
from airflow_provider_rlmm.features.scrub.scrub_plan import SCRUB_PLAN_DOCUMENT, ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import SCRUB_DOCUMENT, ScrubSummary
from airflow_provider_rlmm.features.survey.inventory import (
    INVENTORY_DOCUMENT,
    SURVEY_FOLDER,
    generation_time,
    is_file_of_generation,
)
from airflow_provider_rlmm.overview.pruning import RunFolder, cutoff_ms, group_of, is_file_of_run
from airflow_provider_rlmm.overview.run_summary import MAX_RUN_SUMMARY_BYTES, RUNS_FOLDER, RunSummary, run_of_file

logger = logging.getLogger(__name__)

MOST_FOLDERS = 200
"""Folders of runs that one run looks into; the others are for the next one."""

MOST_FILES = 2_000
"""Files of the audit log, and as many summaries of runs, that one run removes."""

_MAX_LATEST_BYTES = 2**20
_WRONG = (OSError, ConfigurationError, RlmmError, ValueError)


class Pruned(NamedTuple):
    """What was removed."""

    folders: int  # of runs
    summaries: int  # of runs
    audit_files: int  # of the audit log


def tidy_up(
    work_uri: str,
    cluster_id: str,
    artifact: str,
    *,
    since_ms: int,
    keep_runs_days: int,
    keep_audit_days: int,
    clock: Clock = system_clock,
) -> None:
    """
    Put the audit log's files of a run together, and remove what is old. Never raises.

    :param work_uri: the work folder.
    :param cluster_id: the cluster.
    :param artifact: of the run that ends; its report is written.
    :param since_ms: it deleted nothing before, ms since the epoch.
    :param keep_runs_days: for how long runs stay, days; 0 for ever.
    :param keep_audit_days: for how long the audit log stays, days; 0 for ever.
    :param clock: this worker's.
    """
    cluster_uri = f"{work_uri}/{cluster_folder(cluster_id)}"
    try:
        compacted = compact(cluster_uri, artifact, since_ms)
        if any(compacted):
            logger.info("audit log: %d rows put together, %d files removed, %d left", *compacted)
        if floors := FloorFiles(cluster_uri).prune():
            logger.info("removed: %d files of what earlier runs have read of the metadata topic", floors)
        now_ms = min(clock(), _time_of_storage(f"{work_uri}/{artifact}", clock()))
        pruned = prune(
            work_uri,
            cluster_id,
            artifact,
            now_ms=now_ms,
            keep_runs_days=keep_runs_days,
            keep_audit_days=keep_audit_days,
        )
        if any(pruned):
            logger.info("removed: %d folders of old runs, %d summaries of runs, %d files of the audit log", *pruned)
    except _WRONG as e:
        logger.warning("the work folder is not tidied up, the next run tries again: %s", e)


def _time_of_storage(uri: str, otherwise_ms: int) -> int:
    """Return the time that the store of the run's newest document has: a worker in the future must remove nothing."""
    times = [modified_ms(f"{uri}/{name}") for name in (REPORT_DOCUMENT, SCRUB_DOCUMENT) if name in list_files(uri)]
    return max(times, default=otherwise_ms)


def prune(
    work_uri: str, cluster_id: str, artifact: str, *, now_ms: int, keep_runs_days: int, keep_audit_days: int
) -> Pruned:
    """
    Remove folders and summaries of old runs, and old days of the audit log.

    What stays: the newest run of each DAG, the scrub that the next one compares with, plans that have not expired, and
    all that is not recognised. Of a DAG without a newer run nothing is removed.

    :param work_uri: the work folder.
    :param cluster_id: whose runs; those of other clusters stay.
    :param artifact: of the run that ends now.
    :param now_ms: ms since the epoch.
    :param keep_runs_days: for how long runs stay, days; 0 for ever.
    :param keep_audit_days: for how long the audit log stays, days; 0 for ever.
    :raises OSError: if the work folder cannot be listed.
    """
    cluster_uri = f"{work_uri}/{cluster_folder(cluster_id)}"
    runs_cutoff, audit_cutoff = cutoff_ms(now_ms, keep_runs_days), cutoff_ms(now_ms, keep_audit_days)
    folders = summaries = files = 0
    if runs_cutoff is not None:
        ended = {name: run for name in list_files(f"{cluster_uri}/{RUNS_FOLDER}") if (run := run_of_file(name))}
        newest = {group_of(name): name for _, name in sorted(ended.values())} | {group_of(artifact): artifact}
        recent = {name for ended_ms, name in ended.values() if ended_ms >= runs_cutoff}
        kept = recent | {artifact} | set(newest.values())
        folders = _prune_folders(work_uri, cluster_uri, cluster_id, kept, runs_cutoff, now_ms, newest)
        old = [name for name, (ended_ms, of) in sorted(ended.items()) if ended_ms < runs_cutoff and of not in kept]
        for name in old[:MOST_FILES]:
            summaries += _remove_summary(f"{cluster_uri}/{RUNS_FOLDER}/{name}", name, cluster_id)
    if audit_cutoff is not None:
        files = _prune_audit(f"{cluster_uri}/{AUDIT_FOLDER}", day_of(max(0, audit_cutoff)))
    return Pruned(folders, summaries, files)


def _prune_folders(
    work_uri: str,
    cluster_uri: str,
    cluster_id: str,
    kept: set[str],
    cutoff: int,
    now_ms: int,
    newest: dict[str, str],
) -> int:
    latest = _latest_scrub(cluster_uri)
    names = [
        name
        for name in list_folders(work_uri)
        if name not in kept and not is_cluster_folder(name) and group_of(name) in newest and f'"{name}"' not in latest
    ]
    if len(names) > MOST_FOLDERS:
        # Another choice each time: what cannot be recognised must not keep the others from being looked at.
        names = random.sample(names, MOST_FOLDERS)
    removed = 0
    for name in names:
        try:
            folder = _run_folder(f"{work_uri}/{name}", name)
            if folder is not None and folder.may_go(cluster_id, cutoff, now_ms, newest):
                remove_folder(f"{work_uri}/{name}")
                removed += 1
        except _WRONG as e:
            logger.warning("the folder %s of an old run is left: %s", name, e)
    return removed


def _latest_scrub(cluster_uri: str) -> str:
    """Return the document that names the scrub with which the next one compares."""
    try:
        return str(bytes(read_file(f"{cluster_uri}/{LATEST}", _MAX_LATEST_BYTES)).decode())
    except FileNotFoundError:
        return ""


def _run_folder(uri: str, name: str) -> RunFolder | None:
    """Return what the documents of a folder say; ``None`` where they do not say that it is this very run's."""
    files, folders = list_files(uri), list_folders(uri)
    if not files or not all(map(is_file_of_run, files)):
        return None
    if folders and not (folders == [SURVEY_FOLDER] and _is_survey(f"{uri}/{SURVEY_FOLDER}")):
        return None
    clusters: set[str] = set()
    newest, expires = 0, None
    for document, cluster_id, expires_at_ms in _identities(uri, name, files):
        newest = max(newest, modified_ms(f"{uri}/{document}"))
        clusters |= {cluster_id} if cluster_id else set()
        expires = max(expires or 0, expires_at_ms) if expires_at_ms is not None else expires
    if not newest or len(clusters) > 1:
        return None
    return RunFolder(name, next(iter(clusters), None), newest, expires)


def _is_survey(uri: str) -> bool:
    """Tell whether a folder has the inventory of a survey of some topics, and nothing else."""
    return set(list_files(uri)) <= {INVENTORY_DOCUMENT} and all(
        generation_time(name) is not None
        and not list_folders(f"{uri}/{name}")
        and all(map(is_file_of_generation, list_files(f"{uri}/{name}")))
        for name in list_folders(uri)
    )


def _identities(uri: str, name: str, files: list[str]) -> Iterator[tuple[str, str | None, int | None]]:
    """
    Yield document, cluster id and expiry of those that say whose they are.

    :raises RlmmError: if one cannot be read, or is another run's.
    """
    for document in files:
        said: tuple[str, str | None, int | None] | None = None
        if document == SUMMARY_NAME:
            plan = PlanSummary.from_json(read_document(uri, document))
            said = plan.plan_id, plan.cluster_id, plan.expires_at_ms
        elif document == SCRUB_PLAN_DOCUMENT:
            scrub_plan = ScrubPlan.from_json(read_document(uri, document))
            said = scrub_plan.plan_id, scrub_plan.cluster_id, scrub_plan.expires_at_ms
        elif document == SCRUB_DOCUMENT:
            scrub = ScrubSummary.from_json(read_document(uri, document))
            said = scrub.scrub_id, scrub.cluster_id, None
        elif document == REPORT_DOCUMENT:
            report = strict.parse_object(read_document(uri, document))
            of = strict.optional(strict.string)(report.get("cluster_id"), "cluster_id")
            said = strict.string(report.get("report_id"), "report_id"), of, None
        elif document == DOCTOR_DOCUMENT:
            diagnosis = strict.parse_object(read_document(uri, document))
            said = name, strict.string(diagnosis.get("cluster_id"), "cluster_id"), None
        elif document == CONTENTS_DOCUMENT:
            contents = ContentsReport.from_json(read_document(uri, document))
            said = contents.artifact, contents.cluster_id, None
        if said is not None:
            if said[0] != name:
                raise ValueError(f"{uri}/{document} is of the run {strict.shown(said[0])}")
            yield document, *said[1:]


def _remove_summary(uri: str, name: str, cluster_id: str) -> bool:
    try:
        run = RunSummary.from_json(bytes(read_file(uri, MAX_RUN_SUMMARY_BYTES)).decode())
        if run.file_name != name or run.cluster_id != cluster_id:
            raise ValueError("it is another run's")
        remove_file(uri)
    except _WRONG as e:
        logger.warning("the summary %s of an old run is left: %s", uri, e)
        return False
    return True


def _prune_audit(uri: str, first_kept: str) -> int:
    """Remove files of the days before one; a day's folder goes when it is empty."""
    removed = 0
    for day in filter(is_day, list_folders(uri)):
        if day >= first_kept or removed >= MOST_FILES:
            break
        try:
            for name in list_files(f"{uri}/{day}"):
                if is_audit_file(name) and removed < MOST_FILES:
                    remove_file(f"{uri}/{day}/{name}")
                    removed += 1
            if not list_files(f"{uri}/{day}") and not list_folders(f"{uri}/{day}"):
                remove_folder(f"{uri}/{day}")
        except _WRONG as e:
            logger.warning("the audit log of %s is left: %s", day, e)
    return removed
