# SPDX-License-Identifier: Apache-2.0
"""Closed segments of a log directory, copied for a leader that does not."""
