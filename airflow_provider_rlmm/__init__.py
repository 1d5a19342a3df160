# SPDX-License-Identifier: Apache-2.0
"""Apache Airflow provider for the lifecycle of Apache Kafka's remote (tiered, KIP-405) log segments."""

from __future__ import annotations

__version__ = "0.1.0"
