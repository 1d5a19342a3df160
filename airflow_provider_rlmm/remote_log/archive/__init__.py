# SPDX-License-Identifier: Apache-2.0
"""Archives of user partitions: raw segments, records as Parquet, and a manifest that binds them together."""
