# SPDX-License-Identifier: Apache-2.0
"""The Spark job ``segment_retention.py`` as an Airflow operator, and the report of what it planned."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.clock import system_clock
from airflow_provider_rlmm.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.extras import WITHOUT_SPARK
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.lifecycle.plan_files import read_plan
from airflow_provider_rlmm.lifecycle.run_summaries import retention_summary
from airflow_provider_rlmm.links.artifacts import PlanLink
from airflow_provider_rlmm.operators.arguments import Reader, artifact_name, duration_ms, text, text_or_none
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, judged
from airflow_provider_rlmm.operators.history import facts_of, keep_summary
from airflow_provider_rlmm.operators.spark_readiness import SparkHere, require_spark_connection, why_not_fetched
from airflow_provider_rlmm.operators.task_folder import handed_over, task_folder
from airflow_provider_rlmm.policy.attention import Attention
from airflow_provider_rlmm.policy.retention import DEFAULT_MIN_AGE_MS, MIN_AGE_FLOOR_MS
from airflow_provider_rlmm.resources import spark_job_path
from airflow_provider_rlmm.session.steps import step
from airflow_provider_rlmm.settings import artifact_uri
from airflow_provider_rlmm.spark.package import build_py_files, kafka_connector_coordinates, require_pyspark

try:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
except ModuleNotFoundError as e:
    raise ModuleNotFoundError(f"{WITHOUT_SPARK} ({e})", name=e.name) from None

_JOBS_LAST_WORD = re.compile(r"ERROR (no plan: .*)")


class SegmentRetentionOperator(CheckedOperator, SparkSubmitOperator):
    """
    Compute the plan of orphaned, dangling and retention-breached segments with Spark.

    The cluster is observed first, by this task; the job asks the cluster again, after its read, for the name of each topic
    that the listing lacks. Listing and Python code lie in a folder that only the task's user can read and that is gone when
    the job has ended; the client properties, which may hold secrets, are handed over through a named pipe in it and are
    never in a file. So the driver must run where the task does (client mode). What a killed try left of its folder is removed
    by the next one on that machine.

    What the job has read is kept below the work folder, in ``segments-<cluster id>``, and the next run reads only what is
    new; executors must reach that folder as the driver does. Removing it costs one full read, nothing worse.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param min_age_ms: age from which unfinished work on a living topic counts as dangling, ms; at least 24 h.
    :param jars: Spark's Kafka connector as a comma-separated list of jars. Empty: it is taken from ``packages``, or from
        Spark's own folder of jars, if it is there, else fetched by its Maven coordinates.
    :param kwargs: what :class:`SparkSubmitOperator` takes: ``conn_id``, ``conf``, resources, further ``packages``.
    :raises ConfigurationError: before anything is started or asked, if the Spark connection does not exist, asks for cluster
        mode or names no master of Spark; if spark-submit, Java 17 or PySpark is missing, or the connector is, where it was to
        be; if Spark, PySpark and the connector are not of one version.
    :raises EventLogAccessError: if the metadata topic may not be described. Any other topic that may not be is refused by
        name in the plan's summary, if the metadata topic knows it.
    :raises PlanError: with the job's own words, if it made no plan.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "rlmm_conn_id", "min_age_ms")
    readers: ClassVar[Mapping[str, Reader]] = {
        "rlmm_conn_id": text,
        "min_age_ms": partial(duration_ms, minimum=MIN_AGE_FLOOR_MS),
        "jars": text_or_none,
    }
    operator_extra_links = (PlanLink(),)
    ui_color = "#cfe3f7"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        min_age_ms: int | str = DEFAULT_MIN_AGE_MS,
        jars: str = "",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "rlmm-segment-retention")
        super().__init__(application=spark_job_path("segment_retention.py"), jars=jars, **kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.min_age_ms = min_age_ms
        self.check_literals()
        text("conn_id", self._conn_id)

    def execute(self, context: Context) -> None:
        """Observe the cluster, then run the job."""
        read, name = self.read_arguments(), artifact_name(context)
        require_pyspark()
        self.min_age_ms, self.jars = read.min_age_ms, read.jars
        require_spark_connection(self._conn_id)
        connection = self._spark_connection()
        self._require_client_mode(connection)
        self._require_spark(connection)
        self._use_this_python(connection)
        with task_folder("rlmm-retention-") as folder:
            self.py_files = str(build_py_files(folder))
            self.application_args, properties = self._prepare(folder, name)
            with handed_over(folder / "client.properties", properties), step(artifact_uri(name), "evaluate"):
                self._submit(context)
        PlanLink.persist(context, name)

    def _submit(self, context: Context) -> None:
        try:
            super().execute(context)
        except AirflowException as e:
            # That one repeats the command line and the end of Spark's log, in which the reason is one line of many.
            if found := _JOBS_LAST_WORD.search(str(e)):
                raise PlanError(f"{found[1]} (the Spark job's log is above)") from None
            if why := why_not_fetched(str(e)):
                raise ConfigurationError(why) from None
            raise

    def _spark_connection(self) -> Mapping[str, Any]:
        """Return what the operator and the connection say together."""
        try:
            # The hook merges the two, and has no public way to ask for the result.
            connection: Mapping[str, Any] = self._get_hook()._connection
        except (ValueError, TypeError, RuntimeError) as e:
            raise ConfigurationError(f"connection {self._conn_id!r}: {e}") from None
        return connection

    def _require_client_mode(self, connection: Mapping[str, Any]) -> None:
        if connection.get("deploy_mode") == "cluster":
            raise ConfigurationError(
                f"connection {self._conn_id!r}: deploy-mode is cluster, and the driver would not find the files that this "
                "task wrote for it; set it to client"
            )

    def _require_spark(self, connection: Mapping[str, Any]) -> None:
        """Refuse what cannot run here; have the connector fetched where nobody gives it."""
        environment = {**os.environ, **{name: str(value) for name, value in (self.env_vars or {}).items()}}
        spark = SparkHere(self._conn_id, str(connection["master"]), str(connection["spark_binary"]), environment)
        spark.require_usable()
        spark.require_one_version()
        conf = self.conf or {}
        packages = self.packages or conf.get("spark.jars.packages") or ""
        if not spark.has_connector(self.jars or conf.get("spark.jars") or "", packages):
            connector = kafka_connector_coordinates()
            self.packages = f"{packages},{connector}" if packages else connector
            self.log.info("Spark's Kafka connector is neither in jars nor in packages: Spark fetches %s", connector)

    def _use_this_python(self, connection: Mapping[str, Any]) -> None:
        """Let the driver, and in local mode the workers too, be this Python; else spark-submit takes any of the PATH."""
        names = {"spark.pyspark.driver.python": "PYSPARK_DRIVER_PYTHON"}
        if str(connection["master"]).startswith("local"):
            names["spark.pyspark.python"] = "PYSPARK_PYTHON"
        chosen = {name: sys.executable for name, variable in names.items() if variable not in os.environ}
        self.conf = {**chosen, **(self.conf or {})}

    def _prepare(self, folder: Path, name: str) -> tuple[list[str], str]:
        """Write what the job reads and is no secret; return its command line, and the Kafka client's properties."""
        from airflow_provider_rlmm.lifecycle.cluster_look import observe_cluster

        hook = RemoteLogMetadataHook(text("rlmm_conn_id", self.rlmm_conn_id))
        hook.check_cluster()
        metadata_topic = hook.get_connection_settings().metadata_topic
        with hook.naming_connection():
            state = observe_cluster(hook.get_cluster_topics(), metadata_topic, system_clock)
        self.log.info("cluster %s: %d topics observed", state.cluster_id, len(state.topics))
        (folder / "cluster_state.json").write_text(state.to_json())
        arguments = {
            "--bootstrap-servers": hook.bootstrap_servers(),
            "--topic": metadata_topic,
            "--kafka-properties": str(folder / "client.properties"),
            "--cluster-state": str(folder / "cluster_state.json"),
            "--output": artifact_uri(name),
            "--data-set": artifact_uri(f"segments-{state.cluster_id}"),
            "--plan-id": name,
            "--min-age-ms": str(self.min_age_ms),
        }
        return [part for pair in arguments.items() for part in pair], hook.java_client_properties()


class PublishRetentionPlanOperator(CheckedOperator):
    """
    Report what the Spark job planned, and emit the counts with the task's outlet assets.

    It fails, after it has published the plan, as long as something needs a person that nobody has acknowledged; the Airflow
    variable ``rlmm_acknowledgements`` holds what people have said. The plan can be cleaned all the same: what was refused is
    not in it. Its directory is in the XCom ``plan`` in either case.

    :param rlmm_conn_id: connection of type ``rlmm``, for the run's summary.
    :return: segments per reason, all segments known, the plan's directory, and of a Spark job's plan how many records were
        read since which generation (``read_on_from``).
    :raises PlanError: if the job left no plan.
    :raises AirflowFailException: naming how many things need a person, and the first of them; also if the run's summary
        cannot be kept.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id",)
    readers: ClassVar[Mapping[str, Reader]] = {"rlmm_conn_id": text}
    operator_extra_links = (PlanLink(),)
    ui_color = "#c8e6c9"

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish."""
        read, name = self.read_arguments(), artifact_name(context)
        uri = artifact_uri(name)
        summary = read_plan(uri)
        PlanLink.persist(context, name)
        counts: dict[str, Any] = {reason.lower(): count.segments for reason, count in summary.by_reason.items()}
        counts |= {"known": summary.known.segments, "unresolved": summary.unresolved, "plan": uri}
        if summary.job:
            # A plan that was made without Spark says nothing of it.
            counts |= {key: summary.job[key] for key in ("records", "read_on_from") if key in summary.job}
            self.log.info("records read per metadata partition: %s", summary.job.get("records_read"))
        self.log.info("plan %s: %s", name, counts)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = counts
        # A task that fails returns nothing, and the plan can be used all the same.
        context["ti"].xcom_push(key="plan", value=uri)
        refused = [Attention.of_refusal(refusal) for refusal in summary.refusals if refusal.kind.needs_person]
        judgement = judged(self.log, refused, summary.cluster_id)
        facts = facts_of(context, read.rlmm_conn_id)
        unkept = keep_summary(lambda: retention_summary(facts, summary, judgement))
        published = f"plan {summary.plan_id} is published."
        if judgement.failing:
            said = f"{published} {judgement.headline()} {HOW_TO_ACKNOWLEDGE}"
            raise AirflowFailException(f"{said} {unkept}".rstrip())
        if unkept:
            raise AirflowFailException(f"{published} {unkept}")
        return counts
