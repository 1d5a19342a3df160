# SPDX-License-Identifier: Apache-2.0
"""
Builds the DAGs of this package, one set for each connection that ``[rlmm] connections`` names.

The files in ``dags/`` only loop. Nothing here reads a connection: a DAG file is parsed again and again.
"""
