# SPDX-License-Identifier: Apache-2.0
"""Whether the layout of a connection is that of the storage plugin that the brokers run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.quoting import in_quotes

PLUGIN_CLASS: Final = "remote.log.storage.manager.class.name"
"""The brokers' setting that names their storage plugin."""

_LAYOUT_OF: Final = {
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": "local-tiered-storage",
    "io.aiven.kafka.tieredstorage.RemoteStorageManager": "aiven",
}
"""Class of a storage plugin → name of its layout."""


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """
    What the brokers' storage plugin says about the layout.

    :param fits: ``False`` where another layout is surely the right one; ``None`` where that cannot be told.
    :param sentence: what was seen and what to do.
    """

    fits: bool | None
    sentence: str


def compare_plugin(layout: str, classes: Mapping[int, str | None]) -> PluginAnswer:
    """
    Compare a layout with the class of the brokers' storage plugin.

    :param layout: name of the connection's layout.
    :param classes: broker → class, ``None`` where a broker has none; those that do not answer are left out.
    """
    found = sorted({name for name in classes.values() if name})
    if not classes:
        return PluginAnswer(None, "no broker says which storage plugin it runs; compare the layout with it yourself")
    if not found:
        return PluginAnswer(None, f"the brokers name no storage plugin ({PLUGIN_CLASS} is empty)")
    named = ", ".join(map(in_quotes, found))
    layouts = {_LAYOUT_OF.get(name) for name in found}
    if layouts == {layout}:
        return PluginAnswer(True, f"the brokers run {named}, whose layout is {layout}")
    if layout in _LAYOUT_OF.values() and None not in layouts:
        right = " and ".join(sorted(filter(None, layouts)))
        return PluginAnswer(
            False,
            f"the brokers run {named}, whose layout is {right}, and the connection's layout is {layout}: no object would "
            "be found; correct layout in the connection",
        )
    return PluginAnswer(None, f"the brokers run {named}; nothing is known of whether its layout is {layout}")
