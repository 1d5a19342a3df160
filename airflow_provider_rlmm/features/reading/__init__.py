# SPDX-License-Identifier: Apache-2.0
"""Remote log segments and the metadata topic, read without a broker that serves them."""
