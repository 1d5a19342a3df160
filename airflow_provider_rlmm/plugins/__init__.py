# SPDX-License-Identifier: Apache-2.0
"""The Airflow plugin: pages in the API server."""
