# SPDX-License-Identifier: Apache-2.0
"""The files of an archive: written once, read back, and checked before anything is believed."""
