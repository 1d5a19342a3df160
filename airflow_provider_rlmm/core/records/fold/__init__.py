# SPDX-License-Identifier: Apache-2.0
"""Columns of decoded events, applied in order, to the state of the whole topic."""
