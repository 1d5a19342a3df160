# SPDX-License-Identifier: Apache-2.0
"""The doctor of the metadata topic: what is wrong with its records, and what comes of it."""
