# SPDX-License-Identifier: Apache-2.0
"""Which of obstore's options a person has given, and what every refusal says."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.given import extra

logger = logging.getLogger(__name__)

METADATA_ADDRESS: Final = "169.254.169.254"
"""Where machines of all three vendors are told who they are."""


def option(options: Mapping[str, str], names: Collection[str], prefixes: Collection[str]) -> str | None:
    """
    Return the value of the first option that is given, ``None`` where none is.

    :param options: name → value, in any case.
    :param names: how it is called, in lower case.
    :param prefixes: what may come before it, such as ``aws_``.
    """
    return next((options[name] for name, plain in _plain(options, prefixes) if plain in names), None)


def option_or_environment(options: Mapping[str, str], names: Collection[str], prefixes: Sequence[str]) -> str | None:
    """
    Return the value of an option, or what the environment says of it, as obstore reads both; ``None`` where neither does.

    :param options: as :func:`option`.
    :param names: likewise.
    :param prefixes: as :func:`in_environment`.
    """
    return option(options, names, prefixes) or option(_environment(prefixes), names, prefixes) or None


def in_environment(names: Collection[str], prefixes: Sequence[str]) -> bool:
    """
    Tell whether the environment names one of some options of obstore.

    :param names: as :func:`option`.
    :param prefixes: without the first of them nothing in the environment is meant.
    """
    return bool(option(_environment(prefixes), names, prefixes))


def is_true(value: str | None) -> bool:
    """
    Tell whether an option is switched on, as obstore reads it.

    :param value: ``None`` where it is not given.
    """
    return (value or "").lower() in {"1", "true", "on", "yes", "y"}


def _environment(prefixes: Sequence[str]) -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name.lower().startswith(prefixes[0])}


def _plain(options: Mapping[str, str], prefixes: Collection[str]) -> Iterator[tuple[str, str]]:
    for name in options:
        plain = name.lower()
        for prefix in prefixes:
            plain = plain.removeprefix(prefix)
        yield name, plain


def tell_of_metadata() -> None:
    """Say that the machine is about to be asked who it is."""
    logger.warning("asking %s for the role of this machine", METADATA_ADDRESS)


def no_credentials(store: str, looked_at: str) -> ConfigurationError:
    """
    Return the refusal where nothing gives credentials.

    :param store: the kind of store, in words.
    :param looked_at: where credentials were looked for, in words.
    """
    return ConfigurationError(
        f"there are no credentials for {store}: {looked_at}. {METADATA_ADDRESS} is asked for the role of this machine only "
        f"where that is allowed, by {extra('instance_metadata')}. A bucket that everybody may read is opened by the option "
        "skip_signature=true"
    )
