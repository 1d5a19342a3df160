# SPDX-License-Identifier: Apache-2.0
"""The metadata event log on Kafka: everything that opens a client of confluent-kafka."""
