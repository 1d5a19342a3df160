# SPDX-License-Identifier: Apache-2.0
"""Task groups, for DAGs of one's own."""
