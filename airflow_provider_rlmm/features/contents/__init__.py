# SPDX-License-Identifier: Apache-2.0
"""A scrub of contents: whether the bytes of copied segments are what brokers have written."""
