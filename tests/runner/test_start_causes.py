"""Why images and containers do not start: what engines, kubelets and registries say, by every way of asking them."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.clock import skip

from coworld_core.episode.verdict import blame_for
from coworld_core.errors import CoworldError, ImageError, StartError
from coworld_runner.backends.docker._image_pulls import pull_refusal
from coworld_runner.backends.kubernetes._pod_state import start_trouble
from coworld_runner.backends.kubernetes._start_attempts import StartAttempts, advice
from coworld_runner.backends.start_causes import CAUSES, cause_of
from coworld_runner.episode.blame import Circumstances, Observation, rule
from coworld_runner.errors import OWN_DOING
from coworld_runner.worker.worker_units import explain_start

# --- what is said -------------------------------------------------------------------------------------------------

REF = "registry.example/team/bot:1"
RPC = "rpc error: code = Unknown desc = "
DOCKER = RPC + "Error response from daemon: "
CONTAINERD = f'{RPC}failed to pull and unpack image "{REF}": failed to resolve reference "{REF}": '
NOT_FOUND = CONTAINERD.replace("Unknown", "NotFound")
HEAD = 'failed to do request: Head "https://registry.example/v2/team/bot/manifests/1": '
GET = 'Get "https://registry.example/v2/": '
CRIO = f"{RPC}initializing source docker://{REF}: "
PING = f"{CRIO}pinging container registry registry.example: "
READING = f"{CRIO}reading manifest 1 in registry.example/team/bot: "
ANONYMOUS = "failed to authorize: failed to fetch anonymous token: "

PLATFORM = {
    "Docker, no such name": f"{DOCKER}{GET}dial tcp: lookup registry.example on 10.0.0.2:53: no such host",
    "Docker, no resolver": f"{DOCKER}{GET}dial tcp: lookup registry.example: Temporary failure in name resolution",
    "Docker, resolver fails": f"{DOCKER}{GET}dial tcp: lookup registry.example on 10.0.0.2:53: server misbehaving",
    "Docker, refused": f"{DOCKER}{GET}dial tcp 10.0.0.9:443: connect: connection refused",
    "Docker, no time": f"{DOCKER}{GET}net/http: request canceled while waiting for connection "
    "(Client.Timeout exceeded while awaiting headers)",
    "Docker, no handshake": f"{DOCKER}{GET}net/http: TLS handshake timeout",
    "Docker, no answer": f"{DOCKER}{GET}EOF",
    "Docker, 503": f"{DOCKER}received unexpected HTTP status: 503 Service Unavailable",
    "Docker, 502": f"{DOCKER}error parsing HTTP 502 response body: invalid character '<'",
    "Docker, 429": f"{DOCKER}toomanyrequests: You have reached your pull rate limit.",
    "containerd, no such name": f"{CONTAINERD}{HEAD}dial tcp: lookup registry.example: no such host",
    "containerd, refused": f"{CONTAINERD}{HEAD}dial tcp 10.0.0.9:443: connect: connection refused",
    "containerd, no time": f"{CONTAINERD}{HEAD}dial tcp 10.0.0.9:443: i/o timeout",
    "containerd, no route": f"{CONTAINERD}{HEAD}dial tcp 10.0.0.9:443: connect: no route to host",
    "containerd, 503": f"{CONTAINERD}unexpected status from HEAD request to https://registry.example/v2/team/bot/"
    "manifests/1: 503 Service Unavailable",
    "containerd, 500": f"{CONTAINERD}pulling from host registry.example failed with status code [manifests 1]: "
    "500 Internal Server Error",
    "containerd, 429": f"{CONTAINERD}unexpected status code https://registry.example/v2/team/bot/manifests/1: "
    "429 Too Many Requests",
    "containerd, who gives logins is away": f"{CONTAINERD}{ANONYMOUS}Get "
    '"https://auth.example/token": dial tcp: lookup auth.example: no such host',
    "CRI-O, no such name": f"{PING}{GET}dial tcp: lookup registry.example on 10.0.0.2:53: no such host",
    "CRI-O, 503": f"{PING}received unexpected HTTP status: 503 Service Unavailable",
    "CRI-O, 500": f"{RPC}Requesting bearer token: invalid status code from registry 500 (Internal Server Error)",
    "CRI-O, 429": f"{READING}toomanyrequests: You have reached your pull rate limit.",
    "kubelet, its own limit": "pull QPS exceeded",
}
AUTHOR = {
    "Docker, no tag": f"{DOCKER}manifest for {REF} not found: manifest unknown: manifest unknown",
    "Docker, no repository": f"{DOCKER}name unknown: The repository with name 'team/bot' does not exist",
    "Docker, not for this platform": f"{DOCKER}no matching manifest for linux/arm64/v8 in the manifest list entries",
    "containerd, absent": f"{NOT_FOUND}{REF}: not found",
    "containerd, not for this platform": f'{RPC}failed to pull and unpack image "{REF}": no match for platform in '
    "manifest: not found",
    "CRI-O, no tag": f"{READING}manifest unknown",
    "CRI-O, no repository": f"{READING}name unknown: repository team/bot not found",
    "CRI-O, not for this platform": f"{RPC}no image found in manifest list for architecture arm64, "
    'variant "v8", OS linux',
}
OPERATOR = {
    "Docker, denied": f"{DOCKER}pull access denied for team/bot, repository does not exist or may require "
    "'docker login': denied: requested access to the resource is denied",
    "Docker, no credentials": f"{DOCKER}{GET}no basic auth credentials",
    "Docker, unauthorized": f"{DOCKER}unauthorized: authentication required",
    "containerd, denied": f"{CONTAINERD}pull access denied, repository does not exist or may require authorization: "
    "server message: insufficient_scope: authorization failed",
    "containerd, 401": f"{CONTAINERD}{ANONYMOUS}unexpected status: 401 Unauthorized",
    "containerd, 403": f"{CONTAINERD}unexpected status from HEAD request to https://registry.example/v2/team/bot/"
    "manifests/1: 403 Forbidden",
    "CRI-O, denied": f"{READING}requested access to the resource is denied",
    "CRI-O, unauthorized": f"{CRIO}unable to retrieve auth token: invalid username/password: unauthorized: "
    "authentication required",
    "what is in no line": f"{RPC}the moon is full",
}
SAID = [
    *((words, "platform", "registry_unavailable") for words in PLATFORM.values()),
    *((words, "player", "image_absent") for words in AUTHOR.values()),
    *((words, "operator", "image_unreachable") for words in OPERATOR.values()),
]


def waiting(reason: str, message: str = "", **spec: Any) -> dict[str, Any]:
    state = {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}
    return {"metadata": {"name": "p", "uid": "1"}, "spec": spec, "status": {"containerStatuses": [state]}}


def blamed(error: CoworldError) -> tuple[str | None, str | None]:
    """Who is blamed as an episode blames: for a unit that caused its own failure, or for what ends the episode."""
    own = isinstance(error, StartError) and error.code in OWN_DOING
    seen = Observation(what="not_started" if own else "failed", component="player", slot=1, error=error)
    row = rule(seen, Circumstances()).row
    return row.party, row.error_type


@pytest.mark.parametrize(("words", "party", "code"), SAID, ids=[*PLATFORM, *AUTHOR, *OPERATOR])
def test_all_ways_blame_the_same_party(words: str, party: str, code: str) -> None:
    trouble = start_trouble(waiting("ErrImagePull", words))
    assert trouble is not None
    hosted, hint = explain_start(trouble, REF)
    docker = pull_refusal(REF, words.removeprefix(RPC).removeprefix("Error response from daemon: "))
    assert hint
    assert docker.hint
    for error in (
        # The hosted worker; a unit of a cluster; the look at its image before; an engine
        StartError(trouble.message, code=hosted),
        StartError(trouble.message, code=trouble.code),
        ImageError(trouble.message, code=trouble.code, hint=advice(trouble.code, REF)),
        docker,
    ):
        assert (error.code, *blamed(error)) == (code, party, "image_unreachable"), error.message
    # A newer kubelet repeats it between its attempts
    between = start_trouble(waiting("ImagePullBackOff", f'Back-off pulling image "{REF}": ErrImagePull: {words}'))
    assert between is not None
    assert between.code == code


@pytest.mark.parametrize(
    ("reason", "words", "party", "code"),
    [
        (
            "CreateContainerError",
            'failed to create pod sandbox: plugin type="x" failed (add)',
            "platform",
            "start_failed",
        ),
        ("CreateContainerError", "failed to setup network for sandbox: no free address", "platform", "start_failed"),
        ("RunContainerError", "NetworkPlugin cni failed to set up pod: exec: no plugin", "platform", "start_failed"),
        ("CreateContainerConfigError", 'secret "x" not found', "platform", "start_failed"),
        ("ErrImagePull", "failed to register layer: write /x: no space left on device", "platform", "disk_full"),
        ("RunContainerError", 'exec: "bot": executable file not found in $PATH', "player", "command_failed"),
        (
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
            "player",
            "command_failed",
        ),
    ],
)
def test_what_is_no_registry_s(reason: str, words: str, party: str, code: str) -> None:
    trouble = start_trouble(waiting(reason, words))
    assert trouble is not None
    assert trouble.code == explain_start(trouble, REF)[0] == code
    error = StartError("It did not start.", code=code)
    assert blamed(error)[0] == party
    assert party == "player" or blame_for(error)[0] == party


@pytest.mark.parametrize("tag", ["denied", "toomanyrequests", "unauthorized", "429", "503", "exec", "podsandbox"])
def test_the_author_of_a_name_does_not_choose_who_is_blamed(tag: str) -> None:
    for image in (f"registry.example/team/{tag}:1", f"registry.example/team/bot:{tag}", f"{tag}:{tag}"):
        absent = NOT_FOUND.replace(REF, image) + f"{image}: not found"
        assert cause_of(f"ErrImagePull: {absent}", otherwise="").code == "image_absent", image
        assert cause_of(f'ErrImagePull: no word on "{image}"', otherwise="other").code == "other", image


def test_every_line_of_the_table_is_reached() -> None:
    said = [words for words, _, _ in SAID]
    said += ["no space left on device", "network plugin is not ready", "exec format error", "invalid reference format"]
    found = {cause_of(words, otherwise="").seen for words in [*said, "ErrImageNeverPull: x"]}
    assert {cause.seen for cause in CAUSES} <= found


# --- how long the next attempt is waited for ----------------------------------------------------------------------

UNNAMED = ("ImagePullBackOff", f'Back-off pulling image "{REF}"')


async def test_what_may_pass_is_waited_for_and_then_said() -> None:
    told: list[str] = []
    attempts = StartAttempts(on_retry=told.append)
    words = PLATFORM["Docker, no such name"]
    for state in (waiting("ErrImagePull", words), waiting(*UNNAMED), waiting("ErrImagePull", words)):
        assert attempts.trouble(state) is None
    assert len(told) == 1
    assert "no such host" in told[0]
    assert 0 < attempts.seconds_left < 100
    skip(attempts.seconds_left)
    # What was said of the attempt before, not that the kubelet waits
    trouble = attempts.trouble(waiting(*UNNAMED))
    assert trouble is not None
    assert (trouble.code, trouble.message) == ("registry_unavailable", f"ErrImagePull: {words}")
    # It has come after all
    assert attempts.trouble(waiting("ContainerCreating")) is None
    assert attempts.seconds_left == float("inf")


async def test_what_is_final_is_said_at_once_even_after_what_may_pass() -> None:
    attempts = StartAttempts()
    assert attempts.trouble(waiting("ErrImagePull", PLATFORM["Docker, 503"])) is None
    trouble = attempts.trouble(waiting("ErrImagePull", AUTHOR["Docker, no tag"]))
    assert trouble is not None
    assert trouble.code == "image_absent"
    # Whoever comes late, and sees only that the kubelet waits, learns of its next attempt
    late = StartAttempts()
    assert late.trouble(waiting(*UNNAMED)) is None
    assert late.trouble(waiting("ErrImagePull", AUTHOR["Docker, no tag"])) is not None


async def test_it_does_not_outlast_the_episode() -> None:
    attempts = StartAttempts()
    with anyio.move_on_after(10):
        await anyio.lowlevel.checkpoint()
        assert attempts.trouble(waiting("ErrImagePull", PLATFORM["Docker, 503"])) is None
        assert attempts.seconds_left < 10


async def test_a_pull_secret_may_be_read_late() -> None:
    refused = waiting("ErrImagePull", OPERATOR["Docker, no credentials"], imagePullSecrets=[{"name": "login"}])
    backs_off = {**refused, "status": waiting(*UNNAMED)["status"]}
    attempts = StartAttempts()
    for state in (refused, refused, backs_off, backs_off):
        assert attempts.trouble(state) is None
    for state in (refused, backs_off):
        trouble = attempts.trouble(state)
        assert trouble is not None
        assert trouble.code == "image_unreachable"
    assert StartAttempts().trouble(waiting("ErrImagePull", OPERATOR["Docker, no credentials"])) is not None
