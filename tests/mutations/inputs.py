# SPDX-License-Identifier: Apache-2.0
"""Breaks what refuses wrong input early: in the DAG file, in connections, and where Spark is to be started."""

from __future__ import annotations

from tests.mutations.mutation import PUBLISHING, Mutation, switched_off

CHECKED = "operators/checked.py"
READINESS = "operators/spark_readiness.py"

_SAID = "airflow/operators/test_wrong_inputs.py::test_it_fails_in_words"
_READINESS = "airflow/operators/test_spark_readiness.py::"

INPUTS = [
    Mutation(
        "inputs",
        "a literal is looked at when the task runs",
        CHECKED,
        "            check(name, known)\n",
        "            pass\n",
        _SAID,
    ),
    Mutation(
        "inputs",
        "a literal beside a template is not looked at",
        CHECKED,
        "        elif not (_comes_later(value) or callable(value)):\n",
        "        elif not (_holds_later(value) or callable(value)):\n",
        _SAID,
    ),
    Mutation(
        "inputs",
        "a template is taken for a literal",
        CHECKED,
        "        return any(mark in value for mark in _JINJA)\n",
        "        return False\n",
        "airflow/operators/test_wrong_inputs.py::test_what_airflow_fills_in_later_is_taken",
    ),
    Mutation(
        "inputs",
        "arguments of a mapped operator wait for their task",
        CHECKED,
        "        _check_literals(cls, {name: kwargs[name] for name in readers_of(cls.arguments) if name in kwargs})\n",
        "",
        "airflow/operators/test_wrong_inputs.py::test_a_mapped_operator_is_checked_where_its_arguments_stand",
    ),
    switched_off(
        "core/log/kafka/config.py",
        "inputs",
        "a port above 65535 leads to another one",
        "        if found is None or not 1 <= int(found[1] or 9092) <= 65_535:",
        "core/log/kafka/test_kafka_config.py::test_an_address_that_librdkafka_takes_for_another_is_refused",
    ),
    switched_off(
        "hooks/connection.py",
        "inputs",
        "a login in the rlmm connection is passed over",
        "            if unused := [name for name in _UNUSED if getattr(connection, name)]:",
        _SAID,
    ),
    switched_off(
        "settings.py",
        "inputs",
        "every component has a work folder of its own",
        "    if path is not None and not path.is_absolute():",
        _SAID,
    ),
    switched_off(
        "features/reading/metadata_reader.py",
        "inputs",
        "a range that ends before it begins is an empty one",
        "        if number in (start_offsets or {}) and end < start:",
        "features/reading/test_metadata_reader.py::test_an_end_before_the_start_is_refused_and_not_an_empty_range",
    ),
    Mutation(
        "inputs",
        "an event with a field too few is written about as a KeyError",
        PUBLISHING,
        "        if missing := sorted(set(EVENT_FIELDS) - raw.keys()):\n",
        "        if missing := []:\n",
        _SAID,
    ),
    Mutation(
        "Spark",
        "a missing Spark connection is taken for YARN",
        READINESS,
        "        BaseHook.get_connection(conn_id)\n",
        "        pass\n",
        f"{_READINESS}test_a_missing_connection_is_not_taken_for_yarn",
    ),
    Mutation(
        "Spark",
        "starts Spark on a Java that it does not work on",
        READINESS,
        "        if found is None or int(found[1]) < OLDEST_JAVA:\n",
        "        if found is None:\n",
        f"{_READINESS}test_java_is_missing_or_too_old",
    ),
    Mutation(
        "Spark",
        "starts Spark with jars that lack the connector",
        READINESS,
        "        if paths:\n",
        "        if False:\n",
        f"{_READINESS}test_jars_without_the_connector",
    ),
    Mutation(
        "Spark",
        "takes a connector of any version",
        READINESS,
        "    if version != wanted:\n",
        "    if False:\n",
        f"{_READINESS}test_a_connector_of_another_version",
    ),
]
