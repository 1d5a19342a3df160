# SPDX-License-Identifier: Apache-2.0
"""The files that accompany a segment's log, read."""
