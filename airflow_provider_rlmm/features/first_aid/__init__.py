# SPDX-License-Identifier: Apache-2.0
"""The first steps where a metadata topic or a cluster is lost: what a person types, told by reading only."""
