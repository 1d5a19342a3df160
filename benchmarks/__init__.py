# SPDX-License-Identifier: Apache-2.0
"""Programs that measure this package beside its peers in one run; never run as tests."""
