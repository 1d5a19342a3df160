# SPDX-License-Identifier: Apache-2.0
"""
The topic-based RemoteLogMetadataManager. It is a library: no operator and no DAG of this package uses it.

It opens no Kafka client itself; ``RemoteLogMetadataHook.get_metadata_manager`` makes one on a connection. For Kafka's
interface on the metadata topic take :class:`~airflow_provider_rlmm.manager.topic_based.TopicBasedRemoteLogMetadataManager`,
or :class:`~airflow_provider_rlmm.manager.readiness.SwappableRemoteLogMetadataManager` in front of it.
"""
