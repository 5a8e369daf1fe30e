"""What is certified, and how."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from coworld_core import time_limits
from coworld_core.documents.seals import Signer
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.manifest.models import Manifest
from coworld_core.versions import Generation

from ..backend import Backend, Publish
from ..episode.single import EpisodeOptions
from ..evaluation.commissioner import CommissionerOptions
from ..package.resolver import Package
from ..replay.replay_session import ReplayOptions
from ..runs.event_bus import Listener
from .source_references import SourceOptions
from .step_ledger import EPISODE

__all__ = ["Candidate", "CertifyOptions"]


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """How a Coworld is certified. Times are seconds."""

    episode: EpisodeOptions = field(
        default_factory=lambda: EpisodeOptions(timeout_seconds=time_limits.SMOKE_EPISODE, ready_timeout_seconds=120.0)
    )
    """For the smoke episode; its `timeout_seconds` is the only limit. Images are fetched before it begins."""
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    """For showing the replay."""
    sources: SourceOptions = field(default_factory=SourceOptions)
    """For looking up source references."""
    platform: str = "linux/amd64"
    """Platform that images must support, on a backend with images; hosted runs need this one."""
    images_timeout: float = 1800.0
    """For fetching all images."""
    browser: bool = True
    """Whether to look at the pages in a browser, if there is one."""
    audit_timeout: float = time_limits.RULES_AUDIT
    """For the audit of the rules of a game of the kit."""
    commissioner: CommissionerOptions = field(default_factory=lambda: CommissionerOptions(reply_timeout=30.0))
    """For running commissioners."""
    commissioner_timeout: float = 120.0
    """For all that one commissioner does."""
    published: Generation | None = None
    """Published version whose rules apply; None: today's rules."""
    authority: str = ""
    """Name of whoever certifies, for the certificate; by default the account on this machine."""
    signer: Signer | None = None
    """The key that signs the certificate."""

    @property
    def packs_replays(self) -> bool:
        """Whether a replay must load packed, as `replay.json.z`; otherwise it must load as the game wrote it."""
        return self.published in (None, "0.1.26")

    @classmethod
    def within(
        cls,
        timeout: float,
        *,
        offline: bool = False,
        platform: str | None = None,
        published: Generation | None = None,
        authority: str = "",
        signer: Signer | None = None,
        browser: bool = True,
    ) -> CertifyOptions:
        """Return the default options with another deadline for the smoke episode.

        Args:
            timeout: Seconds; also the most that the game gets to become healthy.
            offline: Whether to skip looking up source references.
            platform: Platform that images must support; None means the default.
            published: Published version whose rules apply; None means today's.
            authority: Name of whoever certifies.
            signer: The key that signs the certificate.
            browser: Whether to look at the pages in a browser, if there is one.
        """
        usual = cls()
        ready = min(timeout, usual.episode.ready_timeout_seconds)
        return cls(
            episode=dataclasses.replace(
                usual.episode, timeout_seconds=timeout, ready_timeout_seconds=ready, watch=True
            ),
            sources=dataclasses.replace(usual.sources, offline=offline),
            platform=platform or usual.platform,
            published=published,
            authority=authority,
            signer=signer,
            browser=browser,
        )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The Coworld to certify, with its backend, options and workspace."""

    package: Package
    backend: Backend
    options: CertifyOptions
    layout: EpisodeLayout
    """The certification's own workspace."""
    publish: Publish
    episode_listeners: tuple[Listener, ...] = ()

    @property
    def manifest(self) -> Manifest:
        """The package's manifest."""
        return self.package.manifest

    @property
    def episode(self) -> EpisodeLayout:
        """The smoke episode's workspace."""
        return EpisodeLayout(self.layout.workspace / EPISODE)

    @property
    def platform(self) -> str | None:
        """Platform that the images must support; None on a backend without images."""
        return self.options.platform if self.backend.capabilities.images else None
