# SPDX-License-Identifier: Apache-2.0
"""The Spark job: driver's part."""
