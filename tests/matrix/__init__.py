# SPDX-License-Identifier: Apache-2.0
"""What else than the lock file's versions this package works with: Airflow, Python, Kafka."""
