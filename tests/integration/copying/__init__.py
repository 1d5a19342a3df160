# SPDX-License-Identifier: Apache-2.0
"""Log segments that we copy instead of a broker: what the broker makes of them."""
