# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the records of the metadata topic."""
