# SPDX-License-Identifier: Apache-2.0
"""Mutations that break a rule of the Spark job, or of the tasks around it."""

from __future__ import annotations

from tests.mutations.mutation import (
    ABSENCE,
    CLUSTER_STATE,
    OBSERVING,
    RETENTION_OPERATORS,
    TASK_FOLDER,
    Mutation,
    switched_off,
)

_VERSIONS = "features/retention/test_versions.py::"

SPARK = [
    Mutation(
        "Spark",
        "calls an id orphaned unless its topic was seen",
        ABSENCE,
        "if seen.presence is Presence.ABSENT:",
        "if seen.presence is not Presence.PRESENT:",
        "core/world/test_absence.py::test_everything_else_is_refused_by_name",
    ),
    Mutation(
        "Spark",
        "asks for names that no topic can have",
        ABSENCE,
        " for name in c.names if is_legal_topic_name(name))",
        " for name in c.names)",
        "core/world/test_absence.py::test_only_names_that_can_decide_are_asked_for",
    ),
    switched_off(
        CLUSTER_STATE,
        "Spark",
        "reads another cluster's topic than was listed",
        "        if listed != topic_id:",
        "core/world/test_cluster_state.py::test_listing_of_another_cluster_is_refused",
    ),
    switched_off(
        OBSERVING,
        "Spark",
        "takes a listing without the metadata topic for one",
        "    if metadata_topic not in listing:",
        "core/world/test_observing.py::test_a_listing_without_the_metadata_topic_is_no_listing",
    ),
    switched_off(
        RETENTION_OPERATORS,
        "Spark",
        "publishes in green what needs a person",
        "        if judgement.failing:",
        "airflow/operators/test_operators.py::test_a_plan_with_something_for_a_person_is_published_and_fails_until_it_is_acknowledged",
    ),
    Mutation(
        "secrets",
        "writes the Kafka properties into a file",
        TASK_FOLDER,
        "    os.mkfifo(path, 0o600)\n",
        "    path.write_text(text)\n",
        "airflow/operators/test_task_folder.py::test_a_text_is_handed_over_once_and_only_to_this_user",
    ),
    Mutation(
        "secrets",
        "leaves what killed tries left",
        TASK_FOLDER,
        "    _remove_left_behind(parent, prefix)\n",
        "",
        "airflow/operators/test_task_folder.py::test_a_killed_try_leaves_no_secret_and_the_next_try_nothing_at_all",
    ),
    Mutation(
        "Spark",
        "lets a driver of a cluster work alone",
        "operators/spark_on_cluster.py",
        '{"--master": self.master, "--name": self.name,',
        '{"--name": self.name,',
        "airflow/operators/test_spark_on_cluster.py::test_a_driver_is_started_and_waited_for_in_the_triggerer",
    ),
    Mutation(
        "Spark",
        "takes a driver that failed for one that has made a plan",
        "operators/retention.py",
        "        if event != FINISHED:",
        "        if False:",
        "airflow/operators/test_spark_on_cluster.py::test_a_driver_that_failed_fails_the_task_in_the_jobs_own_words",
    ),
    Mutation(
        "Spark",
        "lets properties of a run move the driver elsewhere",
        "operators/arguments.py",
        " or key in _OF_THE_SPARK_CONNECTION:",
        ":",
        "airflow/operators/test_arguments.py::test_a_wrong_argument_is_named_and_nothing_is_touched",
    ),
    switched_off(
        "features/retention/spark/package.py",
        "Spark",
        "takes a PySpark of Spark 3 beside Airflow",
        "    if is_older_than_clients(pyspark):",
        f"{_VERSIONS}test_a_job_that_cannot_work_is_refused_before_anything_of_spark_is_started",
    ),
    Mutation(
        "Spark",
        "fetches a connector of another Scala than the driver's",
        "features/retention/spark/package.py",
        "    scala = _SCALA_OF_SPARK_4 if core is None else core.scala\n",
        "    scala = _SCALA_OF_SPARK_4\n",
        f"{_VERSIONS}test_the_connector_is_of_the_drivers_spark_and_its_scala",
    ),
    Mutation(
        "Spark",
        "refuses a vendor's Spark for its suffix",
        "features/retention/spark/java_client.py",
        "len(set(map(release, known.values())))",
        "len(set(known.values()))",
        "features/retention/test_java_client.py::test_one_version_passes_and_so_does_a_part_that_does_not_say",
    ),
    switched_off(
        "features/retention/spark/cluster.py",
        "Spark",
        "reads brokers of two clusters where none is expected",
        "        if len({*found.values()}) > 1:",
        "features/retention/test_cluster.py::test_addresses_of_another_cluster_are_refused",
    ),
    Mutation(
        "Spark",
        "reads another cluster than the expected one",
        "features/retention/spark/cluster.py",
        "in found.items() if cluster_id != expected}:",
        "in found.items() if not cluster_id}:",
        "features/retention/test_cluster.py::test_addresses_of_another_cluster_are_refused",
    ),
]
