# SPDX-License-Identifier: Apache-2.0
"""
Assets by which the DAGs of one connection know of each other.

Each connection has its own, so that nothing that one cluster has said starts work on another.
"""
