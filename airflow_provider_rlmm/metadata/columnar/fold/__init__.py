# SPDX-License-Identifier: Apache-2.0
"""From columns of events to one row per segment."""
