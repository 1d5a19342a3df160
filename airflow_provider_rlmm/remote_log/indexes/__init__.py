# SPDX-License-Identifier: Apache-2.0
"""The indexes and the producer snapshot of a log segment, checked when they are parsed. Pure functions over bytes."""
