# SPDX-License-Identifier: Apache-2.0
"""The Spark job ``segment_retention.py`` as an Airflow operator, and the report of what it planned."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm import __version__
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.extras import WITHOUT_SPARK
from airflow_provider_rlmm.core.base.file_systems import replace_file
from airflow_provider_rlmm.core.base.work_folder import cluster_folder, generations_folder
from airflow_provider_rlmm.core.generations.store import GenerationStore, newest_readable
from airflow_provider_rlmm.core.plans.log_refusals import refusal_of_lost, refusals_of_era
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.features.retention.rules import MIN_AGE
from airflow_provider_rlmm.features.retention.spark.memory import ExecutorMemory, TaskMemory
from airflow_provider_rlmm.features.retention.spark.package import (
    build_py_files,
    kafka_connector_coordinates,
    pyspark_version,
    require_pyspark,
)
from airflow_provider_rlmm.features.retention.spark.what_if import WHAT_IF, Scenario
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.spark_master import ACTIVE, FINISHED, SparkMaster
from airflow_provider_rlmm.links.artifacts import PlanLink
from airflow_provider_rlmm.operators.arguments import (
    artifact_name,
    declared_as,
    read_by,
    spark_properties,
    text,
    text_or_none,
)
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, judged
from airflow_provider_rlmm.operators.history import facts_of, keep_summary
from airflow_provider_rlmm.operators.spark_ages import keep_record_ages
from airflow_provider_rlmm.operators.spark_on_cluster import LAST_WORD, JobFolder, Submission
from airflow_provider_rlmm.operators.spark_readiness import SparkHere, require_spark_connection, why_not_fetched
from airflow_provider_rlmm.operators.spark_store import work_store_handed_over
from airflow_provider_rlmm.operators.spark_what_if import what_if_words, what_was_tried
from airflow_provider_rlmm.operators.task_folder import handed_over, task_folder
from airflow_provider_rlmm.overview.run_summaries import retention_summary
from airflow_provider_rlmm.resources import spark_job_path
from airflow_provider_rlmm.settings import artifact_uri, work_uri
from airflow_provider_rlmm.triggers.spark_driver import SparkDriverTrigger

__all__ = ["PublishRetentionPlanOperator", "SegmentRetentionOperator"]

try:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
except ModuleNotFoundError as e:
    raise ModuleNotFoundError(f"{WITHOUT_SPARK} ({e})", name=e.name) from None

_POLL_S = 5
"""Least seconds between two questions for the state of a driver: a master serves everybody."""
_PERHAPS_NOT_OPENED = ", as it does where it cannot open the work folder"
_JOBS_LAST_WORD = re.compile(r"ERROR (no plan: .*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RetentionArguments:
    rlmm_conn_id: str = read_by(text, "rlmm_default")
    min_age_ms: int = declared_as(MIN_AGE)
    jars: str | None = read_by(text_or_none, None)
    kafka_properties_file: str | None = read_by(text_or_none, None)
    store_options_file: str | None = read_by(text_or_none, None)
    spark_files_folder: str | None = read_by(text_or_none, None)
    more_conf: Mapping[str, str] = read_by(spark_properties, {})
    archives: str | None = read_by(text_or_none, None)
    yarn_queue: str | None = read_by(text_or_none, None)
    what_if: tuple[str, ...] = declared_as(WHAT_IF)


class SegmentRetentionOperator(CheckedOperator[_RetentionArguments], SparkSubmitOperator):
    """
    Compute the plan of orphaned, dangling and retention-breached segments with Spark.

    The cluster is observed first, by this task; the job asks the cluster again, after its read, for the name of each topic
    that the listing lacks.

    In client mode the driver runs in this task. Listing and Python code lie in a folder that only the task's user can read
    and that is gone when the job has ended; the client properties, which may hold secrets, are handed over through a named
    pipe in it and are never in a file. What a killed try left of its folder is removed by the next one on that machine.

    In cluster mode (``deploy-mode`` of the Spark connection, or ``deploy_mode``), on a standalone cluster, a worker of Spark
    runs the driver, and this task waits for it in the triggerer, in no worker slot. Listing and code lie in the folder of the
    run, which every machine of the cluster must share under the same path; where that is in an object store, the code lies on
    the machines. Secrets of the Kafka connection and of the work folder's never do.

    What the job has read is kept below the work folder, in ``segments-<cluster id>``, and the next run reads only what is
    new; executors must reach that folder as the driver does. Removing it costs one full read, nothing worse.

    On YARN and Kubernetes executors get the ``spark.executor.memoryOverhead`` that the largest metadata partition needs where
    Spark's default is less, and neither ``conf`` nor ``spark-defaults.conf`` says how much there is to be.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param min_age_ms: age from which unfinished work on a living topic counts as dangling, ms; at least 24 h.
    :param jars: Spark's Kafka connector as a comma-separated list of jars. Empty: it is taken from ``packages``, or from
        Spark's own folder of jars, if it is there, else fetched by its Maven coordinates.
    :param kafka_properties_file: cluster mode: path of a Java properties file on the machines of the Spark cluster, with the
        Kafka client's settings; needed where the Kafka connection holds secrets.
    :param store_options_file: cluster mode: path of a JSON file on the machines of the Spark cluster, with what opens the
        store of the work folder; empty: their environment or their role opens it.
    :param spark_files_folder: cluster mode: folder on the machines of the Spark cluster with what ``rlmm spark-files`` has
        written; needed where the work folder is in an object store.
    :param more_conf: properties that win over those of ``conf``: a mapping, or its JSON text, which a template can render.
    :param archives: archives that Spark unpacks beside each executor, separated by commas, each with ``#`` and the name of
        its folder: an environment of Python, for one. Empty for none.
    :param yarn_queue: queue of YARN; empty: that of the Spark connection.
    :param what_if: other retention settings, evaluated over what the job has read, beside those that topics have: a list of
        texts such as ``orders-*:retention.ms=86400000``, or one as JSON, which a template can render; at most 20. What
        leaders would delete of each topic, and what that saves by the connection's ``prices``, else by
        ``[rlmm] price_per_gb_month``, is in ``what-if.json`` in the folder of the run; of all topics together it is in the
        XCom ``what_if``.
    :param kwargs: what :class:`SparkSubmitOperator` takes: ``conn_id``, ``conf``, resources, further ``packages``. Properties
        in ``conf`` that are empty are left out.
    :raises ConfigurationError: before Spark is started, if ``what_if`` names a topic that the cluster lacks; before anything
        is started or asked, if the Spark connection does not exist, asks for cluster mode on something else than a standalone
        cluster or names no master of Spark; if spark-submit, Java 17 or PySpark is missing, or the connector is, where it was
        to be; if Spark, PySpark and the connector are not of one version.
    :raises SparkMasterError: if no master of a standalone cluster takes the driver.
    :raises EventLogAccessError: if the metadata topic may not be described. Any other topic that may not be is refused by
        name in the plan's summary, if the metadata topic knows it.
    :raises PlanError: with the job's own words, if it made no plan.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields, "rlmm_conn_id", "min_age_ms", "kafka_properties_file", "store_options_file",
        "spark_files_folder", "more_conf", "archives", "yarn_queue", "what_if",
    )  # fmt: skip
    arguments = _RetentionArguments
    operator_extra_links = (PlanLink(),)
    ui_color = "#cfe3f7"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        min_age_ms: int | str = MIN_AGE.default,
        jars: str = "",
        kafka_properties_file: str | None = None,
        store_options_file: str | None = None,
        spark_files_folder: str | None = None,
        more_conf: Mapping[str, Any] | str | None = None,
        archives: str = "",
        yarn_queue: str = "",
        what_if: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "rlmm-segment-retention")
        super().__init__(application=spark_job_path("segment_retention.py"), jars=jars, **kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.min_age_ms = min_age_ms
        self.kafka_properties_file = kafka_properties_file
        self.store_options_file = store_options_file
        self.spark_files_folder = spark_files_folder
        self.more_conf = more_conf
        # Of these two the base class renders no templates.
        self.archives = archives
        self.yarn_queue = yarn_queue
        self.what_if = what_if
        self._driver: tuple[SparkMaster, str] | None = None
        self.check_literals()
        text("conn_id", self._conn_id)

    def execute(self, context: Context) -> None:
        """Observe the cluster, then run the job."""
        read, name = self.read_arguments(), artifact_name(context)
        require_pyspark()
        self.min_age_ms, self.jars = read.min_age_ms, read.jars
        self._archives, self._yarn_queue = read.archives, read.yarn_queue
        given = {key: value for key, value in (self.conf or {}).items() if value not in ("", None)}
        self.conf = {**given, **read.more_conf}
        require_spark_connection(self._conn_id)
        connection = self._spark_connection()
        if connection.get("deploy_mode") == "cluster":
            self._run_on_cluster(context, connection, read)
        for argument in ("kafka_properties_file", "store_options_file", "spark_files_folder"):
            if getattr(read, argument) is not None:
                raise ConfigurationError(
                    f"{argument} is for cluster mode, and connection {self._conn_id!r} runs the driver in this task, which "
                    "hands over what it needs: leave it empty"
                )
        self._require_spark(connection)
        self._use_this_python(connection)
        with task_folder("rlmm-retention-") as folder:
            self.py_files = str(build_py_files(folder))
            hook = RemoteLogMetadataHook(text("rlmm_conn_id", self.rlmm_conn_id))
            properties = folder / "client.properties"
            arguments = self._job_arguments(hook, str(folder), name, read) | {"--kafka-properties": str(properties)}
            self._ask_for_memory(hook, connection, arguments["--data-set"])
            with (
                handed_over(properties, hook.java_client_properties()),
                work_store_handed_over(folder) as store,
                step(artifact_uri(name), "evaluate"),
            ):
                settings = hook.get_connection_settings()
                self.application_args = [*_words({**arguments, **store}), *what_if_words(read.what_if, settings)]
                self._submit(context)
        PlanLink.persist(context, name)
        self._tell_what_was_tried(context, name, read)

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

    def _run_on_cluster(self, context: Context, connection: Mapping[str, Any], read: _RetentionArguments) -> NoReturn:
        """Submit the job to a standalone cluster, and wait for it in the triggerer."""
        master, name = SparkMaster.of(self._conn_id, connection), artifact_name(context)
        self._end_earlier_tries(master, artifact_uri(name))
        folder = JobFolder.below(artifact_uri(name))
        job, py_files = folder.code(read.spark_files_folder)
        hook = RemoteLogMetadataHook(text("rlmm_conn_id", self.rlmm_conn_id))
        arguments = {
            **self._job_arguments(hook, folder.uri, name, read),
            **folder.hand_over_store(read.store_options_file),
            "--kafka-properties": folder.hand_over(hook, read.kafka_properties_file),
            "--last-word": f"{folder.uri}/{LAST_WORD}",
            "--package-version": __version__,
        }
        submission, settings = self._submission(str(connection["master"])), hook.get_connection_settings()
        driver_id = master.submit(
            submission.master,
            submission.name,
            submission.arguments(job, py_files, [*_words(arguments), *what_if_words(read.what_if, settings)]),
            submission.driver(),
            pyspark_version(),
        )
        self._driver = master, driver_id
        folder.note_driver(driver_id)
        self.log.info("Spark driver %s was started by %s", driver_id, connection["master"])
        self.defer(
            trigger=SparkDriverTrigger(master.addresses, driver_id, max(_POLL_S, self._status_poll_interval)),
            method_name="take_plan",
            kwargs={"driver_id": driver_id, "folder": folder.uri},
            timeout=self.execution_timeout,
        )

    def _end_earlier_tries(self, master: SparkMaster, artifact: str) -> None:
        """End the drivers that a lost try of this run has left: two of them would write one plan."""
        for earlier in JobFolder.all_below(artifact):
            driver_id = earlier.driver()
            if driver_id is not None and master.state(driver_id) in ACTIVE:
                self.log.warning("Spark driver %s of an earlier try still runs: it is ended", driver_id)
                master.kill(driver_id)
            earlier.remove()

    def take_plan(self, context: Context, event: str, driver_id: str, folder: str) -> None:
        """
        Look for the plan when the driver has ended; Airflow calls it when the trigger has fired.

        :param context: of the task.
        :param event: the driver's state.
        :param driver_id: the driver.
        :param folder: where it found the job.
        :raises PlanError: with the job's own words, if it made no plan.
        """
        name, job_folder = artifact_name(context), JobFolder(folder)
        why = job_folder.last_word()
        job_folder.remove()
        if event != FINISHED:
            said = why or f"no plan: it left no word of its own{'' if job_folder.is_local else _PERHAPS_NOT_OPENED}"
            raise PlanError(f"{said} (Spark driver {driver_id} ended as {event}; its worker has its log)")
        # A driver that ended well has written it; which of two it was, the plan itself says.
        read_plan(artifact_uri(name))
        PlanLink.persist(context, name)
        self._tell_what_was_tried(context, name, self.read_arguments())

    def _tell_what_was_tried(self, context: Context, name: str, read: _RetentionArguments) -> None:
        if read.what_if:
            context["ti"].xcom_push(key=WHAT_IF.name, value=self.told(what_was_tried(artifact_uri(name))))

    def on_kill(self) -> None:
        """End what this task has started: the job, or the driver that it has just handed to a cluster."""
        if self._driver is not None:
            master, driver_id = self._driver
            master.kill(driver_id)
            return
        super().on_kill()

    def _submission(self, master: str) -> Submission:
        resources = {
            "spark.driver.memory": self._driver_memory,
            "spark.executor.memory": self._executor_memory,
            "spark.executor.cores": self._executor_cores,
            "spark.cores.max": self._total_executor_cores,
            "spark.executor.instances": self._num_executors,
        }
        conf = {**{key: value for key, value in resources.items() if value is not None}, **(self.conf or {})}
        packages = self.packages
        if not (self.jars or packages or conf.get("spark.jars") or conf.get("spark.jars.packages")):
            packages = kafka_connector_coordinates()
            self.log.info("Spark's Kafka connector is neither in jars nor in packages: the driver fetches %s", packages)
        options = {
            "--jars": self.jars,
            "--archives": self._archives,
            "--packages": packages,
            "--exclude-packages": self.exclude_packages,
            "--repositories": self._repositories,
            "--driver-class-path": self.driver_class_path,
        }
        return Submission(master, str(self.name), conf, options)

    def _spark_here(self, connection: Mapping[str, Any]) -> SparkHere:
        environment = {**os.environ, **{name: str(value) for name, value in (self.env_vars or {}).items()}}
        return SparkHere(self._conn_id, str(connection["master"]), str(connection["spark_binary"]), environment)

    def _require_spark(self, connection: Mapping[str, Any]) -> None:
        """Refuse what cannot run here; have the connector fetched where it is not given."""
        spark = self._spark_here(connection)
        spark.require_usable()
        spark.require_one_version()
        conf = self.conf or {}
        packages = self.packages or conf.get("spark.jars.packages") or ""
        if not spark.has_connector(self.jars or conf.get("spark.jars") or "", packages):
            connector = spark.connector
            self.packages = f"{packages},{connector}" if packages else connector
            self.log.info("Spark's Kafka connector is neither in jars nor in packages: Spark fetches %s", connector)

    def _use_this_python(self, connection: Mapping[str, Any]) -> None:
        """Let the driver, and in local mode the workers too, be this Python; else spark-submit takes any of the PATH."""
        names = {"spark.pyspark.driver.python": "PYSPARK_DRIVER_PYTHON"}
        if str(connection["master"]).startswith("local"):
            names["spark.pyspark.python"] = "PYSPARK_PYTHON"
        chosen = {name: sys.executable for name, variable in names.items() if variable not in os.environ}
        self.conf = {**chosen, **(self.conf or {})}

    def _ask_for_memory(self, hook: RemoteLogMetadataHook, connection: Mapping[str, Any], data_set: str) -> None:
        """Ask for the overhead that the executors' Python needs, unless the settings say how much they get."""
        resources = {"spark.executor.memory": self._executor_memory, "spark.executor.cores": self._executor_cores}
        given = {name: value for name, value in resources.items() if value is not None}
        conf = {**self._spark_here(connection).defaults(), **given, **(self.conf or {})}
        executors = ExecutorMemory(str(connection["master"]), {name: str(value) for name, value in conf.items()})
        if not executors.is_limited:
            return
        with hook.naming_connection(), hook.get_event_log() as log:
            before = newest_readable(GenerationStore(data_set))
            task = TaskMemory.of(log.beginning_offsets(), log.high_water_marks(), before)
        if asked := executors.to_ask(task):
            self.log.info("%s; it is asked for", executors.said_of(task))
            self.conf = {**asked, **(self.conf or {})}

    def _job_arguments(
        self, hook: RemoteLogMetadataHook, folder: str, name: str, read: _RetentionArguments
    ) -> dict[str, str]:
        """Observe the cluster, write down what was seen, and return what the job is told, without the client properties."""
        from airflow_provider_rlmm.features.retention.told_leaders import observe_with_leaders

        state = observe_with_leaders(hook, work_uri())
        for settings in read.what_if:
            Scenario.parse(settings).applied(state)
        replace_file(f"{folder}/cluster_state.json", [state.to_json().encode()])
        return {
            "--bootstrap-servers": hook.bootstrap_servers(),
            "--topic": hook.get_connection_settings().metadata_topic,
            "--cluster-state": f"{folder}/cluster_state.json",
            "--output": artifact_uri(name),
            "--data-set": artifact_uri(generations_folder(state.cluster_id)),
            "--plan-id": name,
            "--min-age-ms": str(self.min_age_ms),
        }


def _words(arguments: Mapping[str, str]) -> list[str]:
    return [part for pair in arguments.items() for part in pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PublishArguments:
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class PublishRetentionPlanOperator(CheckedOperator[_PublishArguments]):
    """
    Report what the Spark job planned, and emit the counts with the task's outlet assets.

    It fails, after it has published the plan, as long as something needs a person and is not acknowledged, such as a
    metadata topic that does not hold what earlier runs of the work folder have read of it; the Airflow variable
    ``rlmm_acknowledgements`` holds what people have said. The plan can be cleaned all the same: what was refused is not in
    it. Its directory is in the XCom ``plan`` in either case. What the job has told of the age of segments is kept for the
    pages; where that cannot be done, the log says so.

    :param rlmm_conn_id: connection of type ``rlmm``, for the run's summary and for a look at its metadata topic.
    :return: segments per reason, those that this package may delete (``to_delete``), those that leaders are expected to
        delete for certain (``expected_of_leaders``) and as an estimate (``expected_of_leaders_estimated``), all segments
        known, the plan's directory, and of a Spark job's plan how many records were read since which generation
        (``read_on_from``).
    :raises PlanError: if the job left no plan.
    :raises EventLogError: if the metadata topic cannot be read.
    :raises AirflowFailException: naming how many things need a person, and the first of them; also if the run's summary
        cannot be kept.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id",)
    arguments = _PublishArguments
    operator_extra_links = (PlanLink(),)
    ui_color = "#c8e6c9"

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.core.runs.floors import reading

        read, name = self.read_arguments(), artifact_name(context)
        uri = artifact_uri(name)
        summary = read_plan(uri)
        PlanLink.persist(context, name)
        counts: dict[str, Any] = {reason.lower(): count.segments for reason, count in summary.by_reason.items()}
        counts |= {
            "to_delete": summary.to_delete.segments,
            "expected_of_leaders_estimated": summary.estimated_of_leaders.segments,
            "expected_of_leaders": 0 if summary.leaders is None else summary.leaders.goes.segments,
        }
        counts |= {"known": summary.known.segments, "unresolved": summary.unresolved, "plan": uri}
        if summary.job:
            # A plan that was made without Spark says nothing of it.
            counts |= {key: summary.job[key] for key in ("records", "read_on_from") if key in summary.job}
            self.log.info("records read per metadata partition: %s", summary.job.get("records_read"))
        self.log.info("plan %s: %s", name, counts)
        keep_record_ages(uri, artifact_uri(cluster_folder(summary.cluster_id)), summary.cluster_id)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = counts
        # A task that fails returns nothing, and the plan can be used all the same.
        context["ti"].xcom_push(key="plan", value=uri)
        with reading(RemoteLogMetadataHook(read.rlmm_conn_id), work_uri()) as log:
            # The job compares the log with its own last read only.
            lost = [refusal_of_lost(loss) for loss in log.losses.values()]
            if not any(refusal.kind is RefusalKind.LOG_ERA for refusal in summary.refusals):
                lost += refusals_of_era(log.era)
        seen = dict.fromkeys([*lost, *summary.refusals])
        refused = [Attention.of_refusal(refusal) for refusal in seen if refusal.kind.needs_person]
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
