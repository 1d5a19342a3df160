# SPDX-License-Identifier: Apache-2.0
"""Segments of living topics that are expired or dangling, computed by a Spark job."""
