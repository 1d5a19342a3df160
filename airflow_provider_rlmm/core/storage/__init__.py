# SPDX-License-Identifier: Apache-2.0
"""Remote storage: the protocol, layouts of plugins, stores, deletion whose outcome is proven."""
