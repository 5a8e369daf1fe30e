"""A build pins the sources that a manifest links to, where the commit is one that others can see."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.small_world import MANIFEST

from coworld_core import Manifest, load_manifest
from coworld_runner.build._pinning import pinned

REPO = "https://github.com/Someone/Duel"

pytestmark = pytest.mark.git


def manifest(url: str) -> Manifest:
    loaded = load_manifest(MANIFEST).manifest
    runnable = loaded.game.runnable.model_copy(update={"source_url": url})
    return loaded.model_copy(update={"game": loaded.game.model_copy(update={"runnable": runnable})})


class Repository:
    """A clone, with what it takes for its origin."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("remote", "add", "origin", "git@github.com:someone/duel.git")
        self.commit("one")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", str(self.place), *identity, *words], capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, text: str) -> str:
        (self.place / "game.py").write_text(text)
        self.git("add", ".")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")

    def push(self, branch: str, commit: str = "HEAD") -> None:
        self.git("update-ref", f"refs/remotes/origin/{branch}", commit)

    def becomes(self, url: str) -> tuple[str | None, list[str]]:
        became, issues = pinned(manifest(url), self.place)
        return became.game.runnable.source_url, [issue.message for issue in issues]


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, str]:
    repository = Repository(tmp_path_factory.mktemp("pinning") / "duel")
    repository.push("main")
    repository.push("feature/x")
    return repository, repository.git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("link", "became"),
    [
        ("/tree/main/duel", "/tree/{head}/duel"),
        ("/blob/main/duel/game.py?plain=1", "/blob/{head}/duel/game.py?plain=1"),
        ("/tree/feature/x/duel", "/tree/{head}/duel"),
        ("/tree/main", "/tree/{head}"),
        (f"/tree/{'a' * 40}/duel", f"/tree/{'a' * 40}/duel"),
        ("", ""),
    ],
)
def test_links_to_a_branch_become_links_to_a_commit(pushed: tuple[Repository, str], link: str, became: str) -> None:
    repository, head = pushed
    assert repository.becomes(f"{REPO}{link}") == (REPO + became.format(head=head), [])


def test_links_to_elsewhere_stay(pushed: tuple[Repository, str], tmp_path: Path) -> None:
    other = "https://github.com/someone/other/tree/main"
    assert pushed[0].becomes(other) == (other, [])
    assert pinned(manifest(f"{REPO}/tree/main"), tmp_path)[1] == ()


def test_unknown_branch_is_reported(pushed: tuple[Repository, str]) -> None:
    url = f"{REPO}/tree/nowhere/duel"
    became, [said] = pushed[0].becomes(url)
    assert became == url
    assert said.startswith("game: ")


def test_unpushed_commit_is_not_pinned(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "duel")
    url = f"{REPO}/tree/main/duel"
    repository.push("main")
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit("two")
    became, [said] = repository.becomes(url)
    assert (became, "not pushed" in said) == (url, True)
    repository.push("main")
    assert repository.becomes(url) == (url.replace("main", second), [])
    (repository.place / "game.py").write_text("three")
    became, [said] = repository.becomes(url)
    assert (became, "in no commit" in said) == (url, True)
    repository.git("checkout", "-q", "--force", "--detach", first)
    assert repository.becomes(url) == (url.replace("main", second), [])
