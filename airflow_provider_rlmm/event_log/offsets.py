# SPDX-License-Identifier: Apache-2.0
"""A public fake of the store of committed offsets."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_rlmm.event_log.in_process import EffectHook, no_effect_hook


class InProcessOffsetStore:
    """
    An :class:`~airflow_provider_rlmm.event_log.protocol.OffsetStore` in memory.

    :param on_effect: called before each effect (``committed``, ``None``; ``commit``, the offsets); raise from it to
        make the effect fail.
    :param after_effect: called after each effect; raise from it for a crash whose commit has happened.
    """

    def __init__(self, *, on_effect: EffectHook = no_effect_hook, after_effect: EffectHook = no_effect_hook) -> None:
        self._offsets: dict[int, int] = {}
        self.on_effect = on_effect
        self.after_effect = after_effect

    def committed(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.event_log.protocol.OffsetStore`."""
        self.on_effect("committed", None)
        offsets = dict(self._offsets)
        self.after_effect("committed", None)
        return offsets

    def commit(self, offsets: Mapping[int, int]) -> None:
        """See :class:`~airflow_provider_rlmm.event_log.protocol.OffsetStore`."""
        self.on_effect("commit", offsets)
        self._offsets.update(offsets)
        self.after_effect("commit", offsets)

    def lose(self) -> None:
        """Forget everything, as Kafka does with the offsets of a group that has had no members for long enough."""
        self._offsets.clear()
