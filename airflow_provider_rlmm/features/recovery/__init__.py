# SPDX-License-Identifier: Apache-2.0
"""What of lost clusters lies in storage: the catalogue of copied segments, made without a broker."""
