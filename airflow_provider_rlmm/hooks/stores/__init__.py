# SPDX-License-Identifier: Apache-2.0
"""Stores as Airflow's own connections name them."""
