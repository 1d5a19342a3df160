# SPDX-License-Identifier: Apache-2.0
"""The metadata event log, its offsets and the write guard."""
