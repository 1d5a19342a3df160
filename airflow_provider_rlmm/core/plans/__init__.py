# SPDX-License-Identifier: Apache-2.0
"""What is to go and what was refused: limits, plans and their files, approvals."""
