# SPDX-License-Identifier: Apache-2.0
"""The topic-based RemoteLogMetadataManager of KIP-405, as a library."""
