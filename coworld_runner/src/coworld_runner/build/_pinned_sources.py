"""Pins links to sources to a commit, so that a manifest keeps naming the sources that its images were built from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from coworld_core.issues import Issue
from coworld_core.manifest.models import Manifest, RoleRunnable, Runnable
from coworld_core.role_kinds import ROLE_SECTIONS

__all__ = ["pinned"]

_LINK = re.compile(
    r"(?P<repo>https://github\.com/(?P<name>[^/]+/[^/]+))/(?P<kind>tree|blob)/(?P<rest>[^?#]+)(?P<end>.*)"
)
_ORIGIN = re.compile(r"(?:https://|ssh://git@|git@)github\.com[/:](?P<name>[^/]+/[^/]+?)(?:\.git)?/?", re.IGNORECASE)
_COMMIT = re.compile(r"[0-9a-fA-F]{40}")
_SECONDS = 10


def pinned(manifest: Manifest, directory: Path) -> tuple[Manifest, tuple[Issue, ...]]:
    """Return a manifest whose links into the repository of a directory name a commit, with warnings.

    A link to a branch or a tag of `origin` becomes a link to `HEAD`, or to the branch's or tag's own commit if
    `HEAD` does not include that. A link is left alone, with a warning, if the branch is unknown, if `HEAD` is not
    pushed, or if tracked files have uncommitted changes. Links to other repositories are left alone, and so are all
    links if the directory is not in a repository.

    Args:
        manifest: The manifest.
        directory: The directory that the package is built from.
    """
    urls = [(f"{kind}", url) for kind, url in _links(manifest) if url is not None and _names_no_commit(url)]
    if not urls:
        return manifest, ()
    repository = _Repository(directory)
    new: dict[str, str] = {}
    issues: dict[str, Issue] = {}
    for who, url in urls:
        became = repository.pin(url)
        if isinstance(became, Issue):
            issues.setdefault(became.message, became.model_copy(update={"message": f"{who}: {became.message}"}))
        elif became is not None:
            new[url] = became
    if not new:
        return manifest, tuple(issues.values())

    def moved(entry: Runnable | RoleRunnable) -> Runnable | RoleRunnable:
        url = entry.source_url
        return entry.model_copy(update={"source_url": new[url]}) if url in new else entry

    game = manifest.game.model_copy(update={"runnable": moved(manifest.game.runnable)})
    sections = {
        name: tuple(moved(entry) if isinstance(entry, RoleRunnable) else entry for entry in getattr(manifest, name))
        for name in ROLE_SECTIONS
    }
    return manifest.model_copy(update={"game": game, **sections}), tuple(issues.values())


def _links(manifest: Manifest) -> list[tuple[str, str | None]]:
    entries = [(f"{entry.type} {entry.id}", entry.source_url) for entry in manifest.roles()]
    return [("game", manifest.game.runnable.source_url), *entries]


def _names_no_commit(url: str) -> bool:
    link = _LINK.fullmatch(url)
    return link is not None and _COMMIT.fullmatch(link["rest"].partition("/")[0]) is None


class _Repository:
    """The repository of a directory, if there is one and its origin is on GitHub."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        origin = _ORIGIN.fullmatch(self._git("remote", "get-url", "origin"))
        self._name = origin["name"].casefold() if origin is not None else ""
        self._head = self._git("rev-parse", "--verify", "HEAD") if origin is not None else ""
        self._trouble = self._looked_at() if self._head else None

    def pin(self, url: str) -> str | Issue | None:
        """Return the link with a commit, an issue if that is not possible, or None for a link to elsewhere."""
        link = _LINK.fullmatch(url)
        if link is None or not self._head or link["name"].removesuffix(".git").casefold() != self._name:
            return None
        ref, there = self._ref(link["rest"].split("/"))
        if not there:
            message = f"{url} names a branch that origin is not known to have."
            return _unpinned(message, "Fetch or push it, or link to a commit.")
        ahead = self._git("merge-base", "--is-ancestor", there, self._head, ok="yes") != "yes"
        if not ahead and self._trouble is not None:
            return self._trouble
        commit = there if ahead else self._head
        return f"{link['repo']}/{link['kind']}/{commit}{link['rest'][len(ref) :]}{link['end']}"

    def _looked_at(self) -> Issue | None:
        if self._git("status", "--porcelain", "--untracked-files=no"):
            message = "the sources have changes that are in no commit, so source_url is not pinned."
            return _unpinned(message, "Commit and push them before you build what you publish.")
        if not self._git("branch", "--remotes", "--list", "origin/*", "--contains", self._head):
            message = f"the commit {self._head[:12]} is not pushed, so source_url is not pinned to it."
            return _unpinned(message, "Push it before you build what you publish.")
        return None

    def _ref(self, parts: list[str]) -> tuple[str, str]:
        """Return the longest prefix of a path that is a branch of origin or a tag, and its commit; else empty texts."""
        for length in range(len(parts), 0, -1):
            ref = "/".join(parts[:length])
            for full in (f"refs/remotes/origin/{ref}", f"refs/tags/{ref}"):
                if commit := self._git("rev-parse", "--verify", "--quiet", f"{full}^{{commit}}"):
                    return ref, commit
        return "", ""

    def _git(self, *arguments: str, ok: str = "") -> str:
        """Return git's output, or `ok` if git succeeds without output; empty if it fails."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self._directory), *arguments],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            return ""
        return done.stdout.strip() or ok if done.returncode == 0 else ""


def _unpinned(message: str, hint: str) -> Issue:
    return Issue(code="source_unpinned", severity="warning", message=message, hint=hint)
