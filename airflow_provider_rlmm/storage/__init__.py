# SPDX-License-Identifier: Apache-2.0
"""Remote storage: the protocol, the object layouts and the stores."""
