"""A kubelet's attempts to start a container: how long it is worth waiting for the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from coworld_core.hints import Hint

from ..start_causes import NO_LOGIN, NOT_SAID
from . import _pod_state as state
from ._cluster_capacity import wait_limit
from ._pod_objects import MAIN

__all__ = ["StartAttempts", "advice"]

_RETRY_SECONDS = 75.0
"""How long to wait for what may pass. A kubelet tries at once, and after 10, 30 and 70 s."""


class StartAttempts:
    """What has come of the attempts to start a container, by the states of its pod.

    A kubelet tries to pull an image again and again, at growing intervals, and many do not say in between why the last
    attempt failed. It may also have to try twice for a pull secret that it has not read before: it waits a second for
    that, then pulls without.

    Args:
        container: The container.
        on_retry: Called with the cluster's words when waiting for what may pass begins.
    """

    def __init__(self, container: str = MAIN, *, on_retry: Callable[[str], object] = lambda _: None) -> None:
        self.last: state.Trouble | None = None
        """The trouble in the last state, whether it may pass or not."""
        self._container = container
        self._on_retry = on_retry
        self._said: dict[str, state.Trouble] = {}
        """By container, the last trouble whose cause was said."""
        self._until: float | None = None
        self._backed_off = self._refused_again = False

    @property
    def seconds_left(self) -> float:
        """How long `trouble` may still wait; any number if it waits for nothing."""
        return math.inf if self._until is None or self.last is None else max(0.0, self._until - anyio.current_time())

    def trouble(self, pod: Mapping[str, Any]) -> state.Trouble | None:
        """Why the container will not start, or None while it may; call it with every state of the pod."""
        found = self.last = state.start_trouble(pod, self._container)
        if found is None:
            return None
        if found.cause is NOT_SAID:
            self.last = found = self._said.get(found.container, found)
            between = True
        else:
            self._said[found.container] = found
            between = found.message.startswith("ImagePullBackOff")
        if not found.cause.passes and not self._reads_login(pod, found, between):
            return found
        if self._until is None:
            self._until = anyio.current_time() + wait_limit(_RETRY_SECONDS)
            self._on_retry(found.message)
        return None if self.seconds_left > 0 else found

    def _reads_login(self, pod: Mapping[str, Any], found: state.Trouble, between: bool) -> bool:
        """Whether the kubelet was refused only because it had not read the pod's pull secret yet."""
        if found.cause is not NO_LOGIN or not pod["spec"].get("imagePullSecrets"):
            return False
        if between:
            self._backed_off = True
        elif self._backed_off:
            self._refused_again = True
        return not self._refused_again


def advice(code: str, image: str) -> str | None:
    """The hint for a unit that a cluster does not start, by the code of its trouble; None for other codes."""
    hints = {
        "registry_unavailable": f"See whether the cluster's nodes reach the registry of {image!r}.",
        "image_absent": f"Push {image!r} for the cluster's platform, or correct its name and tag.",
        "image_unreachable": Hint(
            "name_pull_secret",
            "If {image!r} exists, the cluster needs a login for its registry: PodOptions(pull_secrets=...), or "
            "imagePullSecrets of the service account. Many registries say the same of an image that does not exist.",
            image=image,
        ),
        "disk_full": "Make room on the cluster's nodes.",
        "command_failed": "Correct the runnable's `run`, or put the program into the image.",
    }
    return hints.get(code)
