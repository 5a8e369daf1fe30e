"""Why an image or a container does not start: one table of what registries, engines and kubelets say, for all backends.

The code of a cause becomes that of the error, and `episode.blame` attributes it. Most messages quote the image's name,
which its author chose, so each pattern has a space, or stands where no name can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["CAUSES", "IMAGE_CODES", "NOT_SAID", "NO_LOGIN", "StartCause", "cause_of"]


@dataclass(frozen=True)
class StartCause:
    """One line of the table."""

    seen: str
    """Description of the cause, for people."""
    code: str
    """The code of the error."""
    says: str
    """Regular expression, found in any case."""
    passes: bool = False
    """Whether it may pass by itself, so that another attempt is worth waiting for."""


IMAGE_CODES = ("registry_unavailable", "image_absent", "image_unreachable", "disk_full")
"""Codes of causes for which an image could not be had: of the platform, the image's author, the operator, the
platform."""

NO_LOGIN = StartCause(
    # Many registries say this of images that do not exist, too, lest strangers learn which do
    "the registry wants a login, or another one",
    "image_unreachable",
    r"access denied|is denied|(?<![\w/:.@-])(denied|unauthorized): |no basic auth credentials|authentication required|"
    r"authorization failed|not authorized|invalid username/password: |\b40[13] (unauthorized|forbidden)|"
    r"(status|status code|registry):? 40[13]\b",
)

NOT_SAID = StartCause(
    "the kubelet waits before it tries again, and does not say why it failed",
    "image_unreachable",
    r'^imagepullbackoff(: back-off pulling image "[^"]*"\.?)?$',
    passes=True,
)
"""Not in the table: what was said before is the cause."""

CAUSES: tuple[StartCause, ...] = (
    StartCause(
        "the pod's network cannot be set up",
        "start_failed",
        r"pod sandbox|sandbox for pod|network for (sandbox|pod)|network plugin|networkplugin cni|cni plugin|cni config",
        passes=True,
    ),
    StartCause("a disk of the node or engine is full", "disk_full", r"no space left on device|disk quota exceeded"),
    StartCause(
        "the registry's name is not resolved",
        "registry_unavailable",
        r"no such host|server misbehaving|name resolution|name or service not known|lookup \S+( on \S+)?: ",
        passes=True,
    ),
    StartCause(
        "the registry does not answer",
        "registry_unavailable",
        r"connection (refused|reset|timed out)|i/o timeout|handshake timeout|client\.timeout exceeded|"
        r"deadline exceeded|no route to host|(network|host) is (unreachable|down)|dial tcp |broken pipe|"
        r": EOF\W*$|unexpected EOF|request canceled|^registryunavailable",
        passes=True,
    ),
    StartCause(
        "the registry, or the node's own limit, allows no more pulls at the moment",
        "registry_unavailable",
        r"(?<![\w/:.@-])toomanyrequests: |too many requests|rate limit|status( code)?:? 429\b|pull qps exceeded",
        passes=True,
    ),
    StartCause(
        "the registry fails",
        "registry_unavailable",
        r"\b5\d\d (internal server|bad gateway|service (temporarily )?unavailable|gateway time)|"
        r"(status|status code|registry):? 5\d\d\b|http 5\d\d response",
        passes=True,
    ),
    NO_LOGIN,
    StartCause(
        "the registry does not have the image, or not for this platform",
        "image_absent",
        r"manifest unknown|manifest for \S+ not found|name unknown|repository \S+ (not found|does not exist)|"
        r"repository name not known|failed to resolve reference .*: not found|code = notfound|no matching manifest|"
        r"no match for platform|no image found in (manifest|image index)|\b404 not found|"
        r"(status|status code|registry):? 404\b",
    ),
    StartCause(
        "the image's name is not one",
        "image_absent",
        r"^invalidimagename|invalid reference format|couldn't parse image|failed to apply default image tag",
    ),
    StartCause("the node may not pull the image", "image_unreachable", r"^errimageneverpull"),
    StartCause(
        "the image's program cannot be run",
        "command_failed",
        r"exec: |exec format error|executable file|no command specified|unable to find user|"
        r"image will run as root|image has non-numeric user|container process caused",
    ),
)
"""Read from top to bottom; the first that is found applies."""


def cause_of(words: str, *, otherwise: str) -> StartCause:
    """Return the cause that words speak of.

    Args:
        words: What a registry, an engine or a kubelet says, the kubelet's reason included.
        otherwise: The code for words that are in no line.
    """
    for cause in (NOT_SAID, *CAUSES):
        if re.search(cause.says, words, re.IGNORECASE):
            return cause
    return StartCause("anything else", otherwise, "")
