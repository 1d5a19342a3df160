# SPDX-License-Identifier: Apache-2.0
"""Rules as pure functions and value objects."""
