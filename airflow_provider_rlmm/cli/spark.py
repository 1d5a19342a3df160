# SPDX-License-Identifier: Apache-2.0
"""Commands for starting the Spark job by hand: cluster-state, spark-files."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_cluster
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.core.base.agreement import number_of

JOB = "segment_retention.py"


@command()
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it there instead of printing it."
)
@with_cluster
def cluster_state(invocation: Invocation, output: Path | None) -> None:
    """
    List the topics of the cluster with their limits, as the Spark job segment_retention.py wants them told.

    What people have said of offsets without a record is read from the work folder. The job judges nothing that is newer than
    this listing, so make it anew for each run.
    """
    from airflow_provider_rlmm.core.base.file_systems import replace_file
    from airflow_provider_rlmm.features.retention.told_leaders import observe_with_leaders

    access, work_uri = invocation.access(), invocation.work_uri
    with working():
        state = observe_with_leaders(access, work_uri)
    document = f"{state.to_json()}\n"
    if output is None:
        click.echo(document, nl=False)
        return
    replace_file(str(output.absolute()), [document.encode()])
    counts = {"topics": len(state.topics), "explained_gaps": len(state.explained_gaps)}
    if invocation.output.as_json:
        invocation.output.document({"cluster_state": str(output), "cluster_id": state.cluster_id, **counts})
    else:
        invocation.output.line(
            f"cluster {state.cluster_id}: {number_of(counts['topics'], 'topic')} observed. The listing is {output}"
        )


@command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def spark_files(folder: Path, as_json: bool) -> None:
    """
    Write into a folder what spark-submit takes: the job segment_retention.py, and this package's code as a zip.

    They change with the version of this package only, and need no package of Python beside those of the cluster's Spark. It
    asks no cluster.
    """
    from airflow_provider_rlmm.features.retention.spark.package import build_py_files
    from airflow_provider_rlmm.resources import spark_job_path

    archive = build_py_files(folder)
    job = Path(shutil.copyfile(spark_job_path(JOB), folder / JOB))
    found, output = {"job": str(job), "py_files": str(archive)}, Output(as_json=as_json)
    if as_json:
        output.document(found)
    else:
        rows = ({"what": what, "where": where} for what, where in found.items())
        output.rows(rows, {"what": "for spark-submit", "where": "file"})


COMMANDS = (cluster_state, spark_files)
