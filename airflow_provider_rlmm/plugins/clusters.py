# SPDX-License-Identifier: Apache-2.0
"""What is known of a cluster, for those who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from fastapi import HTTPException, Request

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.overview import inventories
from airflow_provider_rlmm.overview.leaders import leaders_of
from airflow_provider_rlmm.overview.run_summary import RunSummary
from airflow_provider_rlmm.overview.runs import CHARTED_RUNS, UnreadableRun, runs
from airflow_provider_rlmm.plugins.dag_ids import connections_of
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import Rights
from airflow_provider_rlmm.plugins.serving import shell_of
from airflow_provider_rlmm.plugins.switches import set_switches
from airflow_provider_rlmm.settings import connections, work_uri


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    What runs have written of a cluster.

    :param folder: name of its folder below the work folder.
    :param inventory: what was surveyed last, ``None`` if nothing ever was, or it cannot be read.
    :param runs: past ones, the oldest first.
    :param unreadable: why the inventory cannot be read, empty if it can.
    :param leaders: what was told last of what its leaders delete next, ``None`` if they were not asked, or it cannot be read.
    :param leaders_unreadable: why that cannot be read, empty if it can.
    :param told_runs: those of ``runs``, and those among them whose summaries cannot be read.
    """

    folder: str
    inventory: Inventory | None
    runs: Sequence[RunSummary]
    unreadable: str = ""
    leaders: ReportedLeaders | None = None
    leaders_unreadable: str = ""
    told_runs: Sequence[RunSummary | UnreadableRun] = ()

    @property
    def cluster_id(self) -> str:
        """Its id, as far as anybody has told."""
        told = self.inventory or (self.runs[-1] if self.runs else None)
        return told.cluster_id if told else self.folder.partition("-")[2]

    @property
    def connections(self) -> tuple[str, ...]:
        """
        The connections of Airflow that it was reached by, the latest first; none if none was told.

        The command writes into the same folder, too, and knows no connection.
        """
        told = [self.inventory, *reversed(self.runs), self.leaders]
        return tuple(dict.fromkeys(by.connection for by in told if by is not None and by.connection in connections()))

    @property
    def connection(self) -> str:
        """By which it was reached, one of Airflow's if there is any; empty if that was not told."""
        told = self.inventory or (self.runs[-1] if self.runs else None)
        return next(iter(self.connections), told.connection if told else "")

    @property
    def stoppable(self) -> tuple[str, ...]:
        """The connections whose kill switch may concern it: where none was told it may be any."""
        return self.connections or connections()


def readable_clusters(rights: Rights) -> list[Cluster]:
    """Return the clusters that a user may see."""
    return [c for c in map(_known, inventories.clusters(work_uri())) if _may_see(rights, c)]


def readable_cluster(rights: Rights, cluster_id: str, *, with_runs: bool = True) -> Cluster:
    """
    Return a cluster that a user may see.

    :param rights: of the user.
    :param cluster_id: its id.
    :param with_runs: whether its past runs are shown.
    :raises HTTPException: 404 if it was not told of, 403 if the user may not see it.
    """
    folder = cluster_folder(cluster_id)
    if folder not in inventories.clusters(work_uri()):
        raise HTTPException(HTTPStatus.NOT_FOUND, "no run has told of such a cluster")
    cluster = _known(folder, with_runs=with_runs)
    if not _may_see(rights, cluster):
        raise HTTPException(HTTPStatus.FORBIDDEN, "no DAG of this cluster may be read")
    return cluster


def cluster_of_run(artifact: str) -> str | None:
    """
    Return the cluster of a run that has not told of one yet, ``None`` where that is not known.

    :param artifact: name of its folder: the DAG in it says by which connection the cluster was reached.
    """
    wanted = connections_of(artifact)
    known = (_known(folder, with_runs=False) for folder in inventories.clusters(work_uri()))
    found = [cluster.cluster_id for cluster in known if cluster.connection in wanted]
    return found[0] if len(found) == 1 else None


def shell_of_cluster(request: Request, cluster: Cluster, active: str) -> Shell:
    """
    Return what stands around a page of a cluster: its kill switch is said on each.

    :param request: the request for it.
    :param cluster: the cluster.
    :param active: part of the cluster's pages to which it belongs.
    """
    stopped = tuple(set_switches(cluster.stoppable).values())
    return replace(shell_of(request), cluster_id=cluster.cluster_id, active=active, stopped=stopped)


def _known(folder: str, *, with_runs: bool = True) -> Cluster:
    inventory, unreadable = None, ""
    try:
        inventory = inventories.inventory(work_uri(), folder)
    except DocumentError as e:
        unreadable = str(e)
    # Where it was not surveyed, or the command did it, a run says by which connection it was reached.
    told = inventory is not None and inventory.connection in connections()
    told_runs = runs(work_uri(), folder, rows=CHARTED_RUNS).rows[::-1] if with_runs or not told else ()
    readable = [run for run in told_runs if isinstance(run, RunSummary)]
    leaders, leaders_unreadable = None, ""
    try:
        leaders = leaders_of(work_uri(), folder)
    except DocumentError as e:
        leaders_unreadable = str(e)
    return Cluster(folder, inventory, readable, unreadable, leaders, leaders_unreadable, told_runs)


def _may_see(rights: Rights, cluster: Cluster) -> bool:
    return any(map(rights.may_see, cluster.connections or (cluster.connection,)))
