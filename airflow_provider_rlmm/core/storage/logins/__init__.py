# SPDX-License-Identifier: Apache-2.0
"""Logins of machines: :mod:`airflow_provider_rlmm.core.storage.logins.login`."""
