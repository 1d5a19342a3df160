# SPDX-License-Identifier: Apache-2.0
"""The topic-based RemoteLogMetadataManager, a library: it opens no Kafka client itself."""
