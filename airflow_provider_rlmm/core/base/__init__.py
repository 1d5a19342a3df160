# SPDX-License-Identifier: Apache-2.0
"""Errors, time, words, files, addresses, checked values and documents."""
