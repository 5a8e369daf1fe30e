"""Whether sources are where a manifest says, asked of a small GitHub on this machine."""

import copy
from collections.abc import Generator
from typing import Any

import anyio
import pytest
from support.fake_github import SHA, GitHub
from support.fake_server import Say, nobody_there, site_in_thread
from support.small_world import MANIFEST, package_of

from coworld_core.manifest.models import Manifest
from coworld_core.retries import Backoff
from coworld_runner.certification.certification_record import SourceRecord
from coworld_runner.certification.source_references import SourceOptions, check_sources


@pytest.fixture
def github() -> Generator[GitHub]:
    with site_in_thread(GitHub()) as github:
        yield github


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def manifest(game: str | None = None, *players: str | None) -> Manifest:
    document = copy.deepcopy(MANIFEST)
    document["game"]["runnable"]["source_url"] = game
    for index, url in enumerate(players):
        document["player"][index]["source_url"] = url
    return package_of(document).manifest


def tree(path: str, *, repo: str = "me/game", sha: str = SHA, kind: str = "tree") -> str:
    return f"https://github.com/{repo}/{kind}/{sha}{f'/{path}' if path else ''}"


async def look(github: GitHub, game: str | None, *players: str | None, **options: Any) -> tuple[SourceRecord, ...]:
    backoff = Backoff(base=0.0, longest_wait=10.0)
    made = SourceOptions(api=github.url, backoff=backoff, **options)
    return await check_sources(manifest(game, *players), options=made)


async def test_a_pinned_directory_with_a_dockerfile_resolves(github: GitHub) -> None:
    (record, *rest) = await look(github, tree("src"))
    assert (record.runnable, record.status, record.code, record.sha) == ("game", "resolved", "source_resolved", SHA)
    assert [other.status for other in rest] == ["not_declared", "not_declared"]


@pytest.mark.parametrize(
    ("url", "where"),
    [
        (tree("src/deep/er"), "src"),
        (tree("src/deep/er/a%20file.py", kind="blob"), "src"),
        (tree("app", repo="me/rooted"), "the root of the repository"),
        (tree("", repo="me/rooted"), "the root of the repository"),
        (tree("app", repo="me/rooted").replace("github.com", "WWW.GitHub.com"), "the root of the repository"),
        (tree("app", repo="me/rooted", sha=SHA.upper()), "the root of the repository"),
    ],
)
async def test_the_dockerfile_may_stand_in_any_directory_above(github: GitHub, url: str, where: str) -> None:
    (record, *_) = await look(github, url)
    assert record.status == "resolved"
    assert f"a Dockerfile in {where}." in record.message


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (tree("gone"), "source_not_found"),
        (tree("src", sha="f" * 40), "source_not_found"),
        (tree("src", repo="me/nowhere"), "source_not_found"),
        (tree("empty"), "source_empty"),
        (tree("src/deep/er/nothing.py", kind="blob"), "source_empty"),
        # A .dockerignore and a directory of that name are no Dockerfile
        (tree("docker"), "source_without_dockerfile"),
    ],
)
async def test_missing_source_is_unresolved(github: GitHub, url: str, code: str) -> None:
    (record, *_) = await look(github, url)
    assert (record.status, record.code) == ("unresolved", code)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/me/game",
        "https://github.com/me/game.git",
        tree("src", sha="main"),
        tree("src", sha="v1.0"),
        tree("src", sha=SHA[:12]),
        tree("src", sha="g" * 40),
    ],
)
async def test_movable_reference_is_not_pinned_without_a_lookup(github: GitHub, url: str) -> None:
    (record, *_) = await look(github, url)
    assert (record.status, record.code) == ("unresolved", "source_not_pinned")
    assert github.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "https://gitlab.com/me/game/-/tree/" + SHA,
        "https://example.invalid/src",
        "git@github.com:me/game.git",
        "ssh://git@github.com/me/game",
        "https://github.com/me",
        "https://github.com/me/game/commit/" + SHA,
        "https://github.com/me/../../etc/passwd",
        "https://github.com.evil.example/me/game",
        "http://[not-an-address/",
        "src/game",
    ],
)
async def test_uncheckable_source_is_unsupported(github: GitHub, url: str) -> None:
    (record, *_) = await look(github, url)
    assert record.status == "unsupported"
    assert github.asked == []


async def test_unpinned_references_do_not_keep_others_from_being_looked_up(github: GitHub) -> None:
    records = await look(github, "https://github.com/me/game", tree("src"), tree("gone"))
    assert [record.code for record in records] == ["source_not_pinned", "source_resolved", "source_not_found"]


async def test_each_source_is_looked_up_once(github: GitHub) -> None:
    records = await look(github, tree("src/deep/er"), tree("src/deep/er"), tree("src/deep"))
    assert {record.status for record in records} == {"resolved"}
    assert len(github.targets()) == len(set(github.targets())) == 3  # src/deep/er, src/deep, src


async def test_passwords_in_an_address_are_not_repeated(github: GitHub) -> None:
    (record, *_) = await look(github, f"https://me:hunter2@github.com/me/game/tree/{SHA}/src")
    assert record.status == "resolved"
    assert record.url == tree("src")


async def test_the_token_is_sent_and_comes_from_the_environment(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tokens() -> list[str | None]:
        return [ask.headers.get("authorization") for ask in github.asked]

    await look(github, tree("src"))
    assert tokens() == [None]
    monkeypatch.setenv("GH_TOKEN", "from-gh")
    await look(github, tree("src"))
    assert tokens()[1:] == ["Bearer from-gh"]
    monkeypatch.setenv("GITHUB_TOKEN", "from-github")
    await look(github, tree("src"))
    assert tokens()[2:] == ["Bearer from-github"]
    await look(github, tree("src"), token="given")
    assert tokens()[3:] == ["Bearer given"]


@pytest.mark.parametrize("answer", [Say(502), Say(429, headers={"Retry-After": "0"})])
async def test_a_failing_host_is_asked_again_and_a_short_wait_is_granted(github: GitHub, answer: Say) -> None:
    github.fail = lambda _, nth: answer if nth == 1 else None
    (record, *_) = await look(github, tree("src"))
    assert record.status == "resolved"
    assert len(github.asked) == 2


USED_UP = {"X-RateLimit-Remaining": "0"}


@pytest.mark.parametrize(
    ("answer", "code", "words", "tries"),
    [
        (Say(503, b""), "source_host_failed", "HTTP 503", 3),
        (Say(425, b""), "source_host_failed", "HTTP 425", 3),
        (Say(503, b"", {"Retry-After": "11"}), "source_host_failed", "HTTP 503", 1),
        (Say(501, b""), "source_host_failed", "HTTP 501", 1),
        # A used-up quota is not waited for
        (Say(403, b"{}", {**USED_UP, "X-RateLimit-Reset": "99999999999"}), "source_rate_limited", "GITHUB_TOKEN", 1),
        (Say(403, b"{}", USED_UP), "source_rate_limited", "GITHUB_TOKEN", 1),
        (Say(429, b"{}", {"Retry-After": "3600"}), "source_rate_limited", "GITHUB_TOKEN", 1),
        (Say(401, b"{}"), "source_token_refused", "", 1),
        (
            Say(200, b"<html>Please sign in to this network</html>", {"Content-Type": "text/html"}),
            "source_host_failed",
            "",
            1,
        ),
        (Say(403, b'{"message": "Resource not accessible"}'), "source_not_found", "HTTP 403", 1),
    ],
)
async def test_an_answer_that_is_no_listing(github: GitHub, answer: Say, code: str, words: str, tries: int) -> None:
    github.fail = lambda _, __: answer
    (record, *_) = await look(github, tree("src"), token="stale" if code == "source_token_refused" else None)
    # All of these decide nothing, except that it is forbidden
    assert (record.status, record.code) == ("unresolved" if code == "source_not_found" else "unreached", code)
    assert words in record.message
    assert len(github.asked) == tries


async def test_without_a_network_nothing_is_decided() -> None:
    github = GitHub()
    with nobody_there() as github.url:
        (record, *_) = await look(github, tree("src"), tries=2)
    assert (record.status, record.code) == ("unreached", "source_unreachable")
    assert github.url in record.message


async def test_offline_check_reads_the_address_without_requests(github: GitHub) -> None:
    records = await look(github, tree("gone"), tree("src", sha="main"), "https://gitlab.com/a/b", offline=True)
    assert [record.code for record in records] == ["offline", "source_not_pinned", "source_host_unsupported"]
    assert github.asked == []


async def test_a_host_that_never_answers_is_given_up_at_the_deadline(github: GitHub) -> None:
    github.fail = lambda _, __: anyio.sleep_forever()
    (record, *_) = await look(github, tree("src"), total_timeout=0.2)
    assert (record.status, record.code) == ("unreached", "source_timeout")
