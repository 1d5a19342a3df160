# SPDX-License-Identifier: Apache-2.0
"""What reads the documents of several features: run history, summaries, inventories of the pages, housekeeping."""
