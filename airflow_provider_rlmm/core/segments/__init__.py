# SPDX-License-Identifier: Apache-2.0
"""What a copied segment is: batches, indexes, lineage, and the pace at which it is moved."""
