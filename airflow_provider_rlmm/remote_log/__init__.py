# SPDX-License-Identifier: Apache-2.0
"""The RemoteLogManager's half of KIP-405: copy, find and read remote log segments without a broker."""
