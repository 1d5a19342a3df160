# SPDX-License-Identifier: Apache-2.0
"""What the metadata topic says is stored, for people: topics, user partitions, segments."""
