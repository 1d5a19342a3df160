# SPDX-License-Identifier: Apache-2.0
"""One folder for each feature, with its rules, documents, work and steps."""
