# SPDX-License-Identifier: Apache-2.0
"""What everybody asks who changes the world: cluster, absence, time, root, holds, and the trail that is left."""
