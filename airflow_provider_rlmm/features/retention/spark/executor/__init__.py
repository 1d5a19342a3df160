# SPDX-License-Identifier: Apache-2.0
"""What executors run: numpy and pyarrow, and no Spark, Kafka or Airflow."""
