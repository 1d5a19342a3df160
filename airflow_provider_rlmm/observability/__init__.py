# SPDX-License-Identifier: Apache-2.0
"""What runs tell systems that watch Airflow: metrics and lineage. Nothing here may break a run."""
