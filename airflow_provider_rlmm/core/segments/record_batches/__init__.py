# SPDX-License-Identifier: Apache-2.0
"""Record batches of message format v2 as columns."""
