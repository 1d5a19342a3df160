# SPDX-License-Identifier: Apache-2.0
"""Records of the metadata topic: Kafka's bytes, states and histories, one by one and as columns."""
