# SPDX-License-Identifier: Apache-2.0
"""The log, the cluster, offsets and time on Kafka: all that opens a client."""
