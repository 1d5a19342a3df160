# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSession

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.spark.java_client import require_driver, require_one_version


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
