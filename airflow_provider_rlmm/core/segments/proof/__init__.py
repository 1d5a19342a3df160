# SPDX-License-Identifier: Apache-2.0
"""Whether the contents of a segment are what a broker has written: its log, its indexes and its metadata, by each other."""
