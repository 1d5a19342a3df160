# SPDX-License-Identifier: Apache-2.0
"""Record batches of message format v2: their headers as arrays, their records as Arrow columns. Pure functions over bytes."""
