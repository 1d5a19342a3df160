# SPDX-License-Identifier: Apache-2.0
"""
Spark job: compute the plan of orphaned, dangling and retention-breached segments of ``__remote_log_metadata``.

Started by ``spark-submit`` with the Kafka connector (``--packages`` or ``--jars``) and the package's zip (``--py-files``). It
reads the topic and the listing of the cluster, asks the cluster for the names of topics that the listing lacks, and writes
``<output>/metadata-partition-<n>.parquet``, ``<output>/record-ages.json`` and, last, ``<output>/summary.json``. It changes
nothing on the cluster.

With ``--data-set`` it keeps what it has read as a generation, and the next run reads only what is new. With ``--what-if`` it
evaluates other retention settings over what it has read, too, and writes ``<output>/what-if.json``. Exit status: 0 when done,
1 with one line that says why not, 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_rlmm import __version__
from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.base.file_systems import read_file, replace_file
from airflow_provider_rlmm.core.base.redaction import secrets_of, without_secrets
from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.plan import PlanSummary, Reason
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.era import LogEra
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT, RecordAges, ToldAge
from airflow_provider_rlmm.features.retention.rules import MIN_AGE, EvaluationLimits
from airflow_provider_rlmm.features.retention.spark.cluster import verify_spark_cluster
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.generations import next_generation, write_generation
from airflow_provider_rlmm.features.retention.spark.handed_over import read_handed_over
from airflow_provider_rlmm.features.retention.spark.java_client import (
    BOOTSTRAP_SERVERS,
    load_properties,
    require_driver,
)
from airflow_provider_rlmm.features.retention.spark.job_report import READ, JobReport
from airflow_provider_rlmm.features.retention.spark.leaders_again import changed_leaders
from airflow_provider_rlmm.features.retention.spark.log_refusals import refusals_of_log
from airflow_provider_rlmm.features.retention.spark.orphans import look_for_orphans
from airflow_provider_rlmm.features.retention.spark.plan import PlanHeader, save_plan
from airflow_provider_rlmm.features.retention.spark.plan_folder import PlanFolder
from airflow_provider_rlmm.features.retention.spark.segments import per_piece
from airflow_provider_rlmm.features.retention.spark.source import MetadataReader, find_range
from airflow_provider_rlmm.features.retention.spark.stores import Stores, stores_in_use
from airflow_provider_rlmm.features.retention.spark.what_if import AS_LISTED, MAX_SCENARIOS, Scenario, what_if
from airflow_provider_rlmm.features.retention.spark.what_if_document import WHAT_IF_DOCUMENT, WhatIfDocument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("segment_retention")

DEFAULT_TOPIC = "__remote_log_metadata"
DEFAULT_EXPIRES_IN_MS = 24 * HOUR_MS

_RAISED = re.compile(r"[\w.]+(Error|Exception): ")
_BY_PY4J, _CAUSE = "An error occurred while calling", "Caused by: "


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """
    Parse the command line; no secret is ever on it.

    :param argv: the arguments, those of the process by default.
    """
    parser = argparse.ArgumentParser(prog="segment_retention", description=__doc__.partition("\n\n")[0].strip())
    parser.add_argument("--bootstrap-servers", required=True, help="Kafka brokers, host:port[,host:port...]")
    parser.add_argument("--topic", default=DEFAULT_TOPIC, help="the metadata topic (%(default)s)")
    parser.add_argument("--kafka-properties", help="Java properties file with more client settings")
    parser.add_argument("--cluster-state", required=True, help="JSON file with the complete topic listing")
    parser.add_argument(
        "--output", required=True, help="folder for the plan, in a store or one that driver and executors share"
    )
    parser.add_argument(
        "--store-options",
        help="JSON file with options of obstore that open the store of plan and data set; without it each machine's "
        "environment or role does",
    )
    parser.add_argument("--plan-id", required=True, help="names the plan")
    parser.add_argument(
        "--package-version", help="refuse to work if this package is of another version than the caller"
    )
    parser.add_argument(
        "--last-word",
        help="file that says why there is no plan, for those who do not see this program's log",
    )
    parser.add_argument(
        "--data-set", help="folder of the generations, shared by driver and executors; none are kept without it"
    )
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        type=_scenario,
        metavar="[TOPICS:]retention.ms=N[,retention.bytes=N]",
        help="other settings to evaluate over what was read; may be given several times",
    )
    parser.add_argument(
        "--price-micros", type=int, help="what storing 2^30 bytes costs in a month, in millionths, for --what-if"
    )
    parser.add_argument("--now-ms", type=int, help="time of the evaluation, ms since the epoch (now)")
    parser.add_argument(
        "--min-age-ms",
        type=int,
        default=MIN_AGE.default,
        help="age from which unfinished work dangles (%(default)s)",
    )
    parser.add_argument("--allow-low-min-age", action="store_true", help="allow a minimum age below 24 h")
    parser.add_argument(
        "--expires-in-ms", type=int, default=DEFAULT_EXPIRES_IN_MS, help="how long the plan is good for (%(default)s)"
    )
    arguments = parser.parse_args(argv)
    if len(arguments.what_if) > MAX_SCENARIOS:
        parser.error(f"argument --what-if: may be given {MAX_SCENARIOS} times")
    return arguments


def _scenario(text: str) -> Scenario:
    try:
        return Scenario.parse(text)
    except ConfigurationError as e:
        raise argparse.ArgumentTypeError(str(e)) from e


def make_plan(
    spark: SparkSession,
    arguments: argparse.Namespace,
    cluster_state: ClusterState,
    limits: EvaluationLimits,
    properties: Mapping[str, str],
) -> PlanSummary:
    """
    Read, fold and evaluate in one pass, then look at the cluster and write the plan.

    A plan that is there already is replaced, so a job may be tried again.

    :param spark: the session.
    :param arguments: the command line.
    :param cluster_state: the listing.
    :param limits: time and minimum age.
    :param properties: Kafka client properties.
    :raises RlmmError: if the topic cannot be read, or it is not proven that one cluster was listed, read and asked.
    """
    for scenario in arguments.what_if:
        # A topic that is not there is found before anything is read.
        scenario.applied(cluster_state)
    work = JobReport()
    with work.stage("look"):
        cluster = verify_spark_cluster(spark, properties, arguments.topic, cluster_state.cluster_id)
        topic_range = find_range(spark, cluster, arguments.topic)
        cluster_state.require_topic(arguments.topic, topic_range.topic_id)
    folder = PlanFolder(arguments.output)
    folder.clear()
    reader = MetadataReader(spark, cluster, topic_range)
    evaluation = Evaluation(topic_range.num_partitions, cluster_state, limits)
    with _store(arguments.data_set, folder) as store:
        with work.stage(READ):
            write = write_generation if arguments.data_set is None else next_generation
            written = write(reader, evaluation, store)
        work.take(written)
        refused = refusals_of_log(written.generation, cluster_state.explained_gaps)
        if arguments.what_if:
            with work.stage("what-if"):
                tried = try_settings(spark, arguments, store, written.generation, cluster_state, limits, refused)
                folder.create(WHAT_IF_DOCUMENT, tried.to_json().encode())
        ages = RecordAges.of(
            (ToldAge(**row) for row in written.data_set.ages.to_pylist()),
            cluster_id=cluster.cluster_id,
            told_at_ms=limits.now_ms,
        )
        folder.create(AGES_DOCUMENT, ages.to_json().encode())
        # All that is asked of the cluster is asked after the read: a name may come and go.
        with work.stage("ask"):
            orphans = look_for_orphans(spark, cluster, topic_range, written.data_set.unlisted)
            era, leaders = LogEra.of(written.generation.era), written.data_set.leaders
            changed = changed_leaders(spark, cluster, topic_range.topic, cluster_state, leaders, era)
        header = PlanHeader(
            plan_id=arguments.plan_id,
            cluster_id=cluster.cluster_id,
            created_at_ms=limits.now_ms,
            expires_at_ms=limits.now_ms + arguments.expires_in_ms,
            read_until=topic_range.end,
            era=written.generation.era,
            refusals=(
                *refused,
                *orphans.refusals,
                *topic_range.lost_beginnings(),
            ),
            job=work,
        )
        summary = save_plan(spark, written.data_set, orphans.absent, folder, header, changed)
    work.say(log)
    return summary


@contextmanager
def _store(data_set: str | None, folder: PlanFolder) -> Iterator[GenerationStore]:
    """Return the data set; one that is not to be kept lies beside the plan, and is gone when the block ends."""
    if data_set is not None:
        yield GenerationStore(data_set)
        return
    with folder.new_rows() as name:
        yield GenerationStore(f"{folder.uri}/{name}")


def try_settings(
    spark: SparkSession,
    arguments: argparse.Namespace,
    store: GenerationStore,
    generation: Generation,
    cluster_state: ClusterState,
    limits: EvaluationLimits,
    refused: Sequence[Refusal],
) -> WhatIfDocument:
    """
    Evaluate other retention settings over what was read, beside those that topics have.

    :param spark: the session.
    :param arguments: the command line.
    :param store: where the generation lies.
    :param generation: what was read.
    :param cluster_state: the listing.
    :param limits: time and minimum age.
    :param refused: why the log may lack records.
    :raises RlmmError: if settings mean no topic of the listing, or a file is not the one that was written.
    """
    scenarios = [AS_LISTED, *arguments.what_if]
    found = what_if(partial(per_piece, spark), store, generation, cluster_state, limits, scenarios)
    for result in found:
        counts = (f"{reason}: {c.segments} segments, {c.bytes} bytes" for reason, c in sorted(result.by_reason.items()))
        log.info("what if %s, estimated: %s", result.scenario.text, "; ".join(counts) or "nothing would go")
    return WhatIfDocument.of(
        generation, found, evaluated_at_ms=limits.now_ms, refusals=refused, price_micros=arguments.price_micros
    )


def report(summary: PlanSummary, output: str) -> None:
    """
    Log what was found.

    :param summary: the summary that was written.
    :param output: where it was written.
    """
    planned = summary.planned
    log.info("known: %d segments, %d bytes, not finished", summary.known.segments, summary.known.bytes)
    for reason, count in summary.by_reason.items():
        of_leaders = " (of leaders)" if Reason(reason).is_of_leaders else ""
        log.info("%s: %d segments, %d bytes%s", reason, count.segments, count.bytes, of_leaders)
    if (told := summary.leaders) is not None:
        log.info(
            "leaders of user partitions: all is told of %d, at least what is told goes of %d, %d are unresolved; they delete "
            "%d segments, %d bytes for certain, and %d segments are an estimate",
            told.all,
            told.at_least,
            told.unresolved,
            told.goes.segments,
            told.goes.bytes,
            summary.estimated_of_leaders.segments,
        )
        for why, partitions in told.why.items():
            log.info("unresolved: %d user partitions: %s", partitions, why)
    for refusal in summary.refusals:
        log.warning("refused (%s): %s: %s; %s", refusal.kind, refusal.what, refusal.why, refusal.what_to_do)
    log.info("plan %s: %d segments, %d bytes, in %s", summary.plan_id, planned.segments, planned.bytes, output)


def open_session() -> SparkSession:
    """
    Return a session; master, resources, connector and Python files are ``spark-submit``'s to give.

    :raises ConfigurationError: if it is one of Spark Connect.
    """
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName("rlmm-segment-retention")
        # Spark's default pattern does not know Kafka's name for a login.
        .config("spark.redaction.regex", "(?i)secret|password|token|access[.]?key|jaas")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .getOrCreate()
    )
    require_driver(spark)
    spark.sparkContext.setLogLevel("WARN")
    return spark


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the job and return its exit status.

    :param argv: the arguments, those of the process by default.
    """
    arguments = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for name in (log.name, "airflow_provider_rlmm.features.retention.spark"):
        logging.getLogger(name).setLevel(logging.INFO)
    properties = {BOOTSTRAP_SERVERS: arguments.bootstrap_servers}
    try:
        _open_stores(arguments)
        _require_version(arguments.package_version)
        now_ms = int(time.time() * 1000) if arguments.now_ms is None else arguments.now_ms
        limits = EvaluationLimits(now_ms, arguments.min_age_ms, arguments.allow_low_min_age)
        cluster_state = _read_cluster_state(arguments.cluster_state)
        spark = open_session()
        try:
            if arguments.kafka_properties is not None:
                properties = {**load_properties(spark, arguments.kafka_properties), **properties}
            report(make_plan(spark, arguments, cluster_state, limits, properties), arguments.output)
        finally:
            spark.stop()
    except RlmmError as e:
        _say_why(_without_secrets(str(e), properties), arguments.last_word)
        return 1
    except Exception as e:
        why = f"{type(e).__name__}: {_without_secrets(_one_line(str(e)), properties)}"
        _say_why(why, arguments.last_word)
        return 1
    return 0


def _open_stores(arguments: argparse.Namespace) -> None:
    """Open stores here, and on executors, by what was handed over."""
    handed, path = None, arguments.store_options
    if path is not None:
        from airflow_provider_rlmm.core.storage.handed_store import HandedStore

        what = f"file of store options {path}"
        handed = HandedStore.from_json(read_handed_over(path, what).decode(errors="replace"), what)
    named = (
        arguments.output,
        arguments.data_set,
        arguments.cluster_state,
        arguments.last_word,
        arguments.kafka_properties,
    )
    used = [uri for uri in named if uri is not None]
    stores = Stores.of(handed, used)
    for uri in used:
        stores.use(uri)


def _require_version(asked: str | None) -> None:
    if asked not in (None, __version__):
        raise ConfigurationError(
            f"the job's code on the Spark cluster is airflow-provider-rlmm {__version__}, and {asked} has asked for it: let "
            "rlmm spark-files of that version write it anew"
        )


def _without_secrets(text: str, properties: Mapping[str, str]) -> str:
    handed = stores_in_use().handed
    return without_secrets(text, {*secrets_of(properties), *(() if handed is None else handed.secrets)})


def _say_why(why: str, last_word: str | None) -> None:
    log.error("no plan: %s", why)
    if last_word is not None:
        try:
            replace_file(last_word, [f"no plan: {why}".encode()])
        except (OSError, ConfigurationError) as e:
            log.error("%s cannot be written: %s", last_word, e)


def _one_line(message: str) -> str:
    """Return what went wrong: Spark's messages go on for pages of stack trace, and executors have logged theirs already."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if "Traceback" in message and (raised := [line for line in lines if _RAISED.match(line)]):
        return raised[-1]
    if lines and lines[0].startswith(_BY_PY4J):
        # Which call it was says nothing; Java's own words do, and most of all those of what caused it.
        said = [line for line in lines if line.startswith((": ", _CAUSE))]
        return said[-1].removeprefix(_CAUSE).removeprefix(": ") if said else lines[0]
    return lines[0] if lines else ""


def _read_cluster_state(uri: str) -> ClusterState:
    try:
        return ClusterState.from_json(str(read_file(uri), "utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigurationError(f"cluster state {uri} cannot be read: {e}") from e


if __name__ == "__main__":
    sys.exit(main())
