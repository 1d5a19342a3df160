# SPDX-License-Identifier: Apache-2.0
"""What every feature stands on; it knows none of them."""
