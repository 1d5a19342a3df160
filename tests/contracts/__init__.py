# SPDX-License-Identifier: Apache-2.0
"""What every implementation of a protocol has to keep, as suites that their unit tests run."""
