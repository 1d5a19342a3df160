# SPDX-License-Identifier: Apache-2.0
"""Segments are archived before they go, and restored into another topic."""
