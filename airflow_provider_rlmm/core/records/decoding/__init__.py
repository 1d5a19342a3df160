# SPDX-License-Identifier: Apache-2.0
"""From values to columns, without a loop over rows."""
