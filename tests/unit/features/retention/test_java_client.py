# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.java_gateway import JavaPackage
from pyspark.sql.connect.session import SparkSession as ConnectSession

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.redaction import secrets_of, without_secrets
from airflow_provider_rlmm.core.log.kafka.config import java_client_properties
from airflow_provider_rlmm.features.retention.spark import handed_over
from airflow_provider_rlmm.features.retention.spark.java_client import (
    load_properties,
    require_connector,
    require_driver,
    require_one_version,
)


def test_a_spark_connect_session_is_named() -> None:
    session: Any = ConnectSession.__new__(ConnectSession)
    with pytest.raises(ConfigurationError, match="Spark Connect session"):
        require_driver(session)


def test_parts_of_another_patch_version_are_named() -> None:
    with pytest.raises(ConfigurationError) as refused:
        require_one_version({"Spark": "4.0.1", "pyspark": "4.0.0", "the Kafka connector": None})
    assert str(refused.value) == (
        "the Spark driver has parts of different versions: Spark 4.0.1, pyspark 4.0.0; give all of them one version"
    )
    with pytest.raises(ConfigurationError, match=r"the Kafka connector 4\.0\.1"):
        require_one_version({"Spark": "4.0.0", "pyspark": "4.0.0", "the Kafka connector": "4.0.1"})


def test_one_version_passes_and_so_does_a_part_that_does_not_say() -> None:
    require_one_version({"Spark": "4.0.0", "pyspark": "4.0.0", "the Kafka connector": "4.0.0"})
    require_one_version({"Spark": "4.0.0", "pyspark": "4.0.0", "the Kafka connector": None})
    require_one_version({"Spark": "3.5.5-amzn-1", "pyspark": "3.5.5+amzn.1", "the Kafka connector": "3.5.5"})


def test_a_driver_without_the_connector_is_told_which_fits_its_spark_and_its_scala() -> None:
    spark: Any = MagicMock(version="3.5.5-amzn-1")
    spark._jvm.org.apache.kafka.clients.admin.AdminClient = JavaPackage("x", None)
    spark._jvm.scala.util.Properties.versionNumberString.return_value = "2.12.18"
    fits = r"--packages org\.apache\.spark:spark-sql-kafka-0-10_2\.12:3\.5\.5, or its jars with --jars$"
    with pytest.raises(ConfigurationError, match=fits):
        require_connector(spark)


NO_SESSION: Any = None
"""Nothing is asked of Java before the text is there."""


def test_a_pipe_whose_writer_is_dead_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_over, "PIPE_TIMEOUT_S", 0.05)
    path = tmp_path / "client.properties"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match=r"client.properties cannot be read.*its writer was not done within"):
        load_properties(NO_SESSION, str(path))


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing.properties cannot be read .*: No such file"):
        load_properties(NO_SESSION, str(tmp_path / "missing.properties"))


def test_the_password_of_a_connection_is_hidden() -> None:
    kafka = {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": 'to:be="hidden',
    }
    text = java_client_properties(kafka)
    (config,) = (line.partition("=")[2] for line in text.splitlines() if line.startswith("sasl.jaas.config"))
    # What Java's reader of properties makes of it.
    read = config.replace("\\\\", "\\")
    secrets = secrets_of({"sasl.jaas.config": read})
    assert without_secrets('no login of u with to:be="hidden', secrets) == "no login of u with ***"
