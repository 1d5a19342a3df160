# SPDX-License-Identifier: Apache-2.0
"""
Kafka's log directories as brokers leave them: what lies there, whose it is, and whether a segment may be copied.

Everything here only reads, but for :mod:`~airflow_provider_rlmm.remote_log.log_directory.snapshot`, which writes into
a folder of its own.
"""
