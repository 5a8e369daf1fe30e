"""Ids, tokens, images, platforms, ports, quantities, reserved names, placeholders."""

from __future__ import annotations

import re
import string
from decimal import Decimal
from typing import Any

import pytest

from coworld_core import generate_tokens, load_manifest
from coworld_core.documents.json_text import parse_json
from coworld_core.episode.outcome import Exit
from coworld_core.errors import ImageError, ManifestError, UsageError
from coworld_core.ids import SAFE_ID_PATTERN, is_safe_id, new_run_id
from coworld_core.images import ImageRef, Platform, content_tag, host_platform
from coworld_core.manifest.template import hydrate, placeholder, placeholders
from coworld_core.player_seeds import block_secret, new_player_secret, player_seed
from coworld_core.ports import ExtraPort, parse_extra_ports
from coworld_core.quantities import parse_quantity
from coworld_core.reserved_env import is_reserved_env

IMAGE_ID = "img_01234567-89ab-cdef-0123-456789abcdef"
DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize("text", ["a", "sweep-painter", "Sweep Painter 1", "a.b", "__x", "größe", "0", "a" * 128])
def test_safe_ids(text: str) -> None:
    assert is_safe_id(text)
    assert re.match(SAFE_ID_PATTERN, text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "../x", "a/b", "a\\b", "a:b", "-x", ".x", "x.", " x", "x ", "a\nb", "a\0b", "a\u202eb", "a" * 129],
)
def test_unsafe_ids(text: str) -> None:
    assert not is_safe_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", "../x", "a/b", "a\\b", "a:b", "-x", ".x", "x.", " x", "x ", "a\nb"])
def test_the_published_pattern_agrees(text: str) -> None:
    assert not re.fullmatch(SAFE_ID_PATTERN[1:-1], text)


def test_tokens() -> None:
    tokens = generate_tokens(64)
    assert len(set(tokens)) == 64
    alphabet = set(string.ascii_letters + string.digits + "-_")
    assert all(len(token) == 22 and set(token) <= alphabet for token in tokens)
    assert generate_tokens(0) == ()
    with pytest.raises(ValueError, match="negative"):
        generate_tokens(-1)


def test_run_ids() -> None:
    assert re.fullmatch("[0-9a-f]{16}", new_run_id())
    assert new_run_id() != new_run_id()


@pytest.mark.parametrize(
    ("text", "kind", "name", "tag"),
    [
        ("game", "local", "game", ""),
        ("game:1.0", "local", "game", "1.0"),
        ("me/game:1.0", "local", "me/game", "1.0"),
        ("img_game:latest", "local", "img_game", "latest"),
        ("ghcr.io/me/game:1.0", "registry", "ghcr.io/me/game", "1.0"),
        ("localhost/game", "registry", "localhost/game", ""),
        ("host:5000/game", "registry", "host:5000/game", ""),
        ("[::1]:5000/game", "registry", "[::1]:5000/game", ""),
        ("ghcr.io/me/game:coworld-0123456789ab", "content", "ghcr.io/me/game", "coworld-0123456789ab"),
        ("game:coworld-0123456789ab", "content", "game", "coworld-0123456789ab"),
        (f"ghcr.io/me/game:1.0@{DIGEST}", "digest", "ghcr.io/me/game", "1.0"),
        (f"game@{DIGEST}", "digest", "game", ""),
        ("coworld/cow_0a/paintarena-0.1.0-1:downloaded", "local", "coworld/cow_0a/paintarena-0.1.0-1", "downloaded"),
        (IMAGE_ID, "unpublished", "", ""),
        ("{{GAME_IMAGE}}", "template", "", ""),
        ("file://player.py", "file", "", ""),
    ],
)
def test_image_kinds(text: str, kind: str, name: str, tag: str) -> None:
    image = ImageRef.parse(text)
    assert (image.kind, image.name, image.tag) == (kind, name, tag)
    assert str(image) == text
    assert image.digest == (DIGEST if kind == "digest" else "")
    assert image.runnable == (kind not in ("unpublished", "template", "file"))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("ghcr.io/me/player:1.2", "player:1.2"),
        ("host:5000/player:latest", "player"),
        ("player", "player"),
        ("player:coworld-0123456789ab", "player:coworld-0123456789ab"),
        (f"me/player:1@{DIGEST}", "player:1"),
        (f"me/player@{DIGEST}", f"player@{DIGEST[7:19]}"),
        (IMAGE_ID, IMAGE_ID),
        ("{{GAME_IMAGE}}", "{{GAME_IMAGE}}"),
    ],
)
def test_short_image_name(text: str, short: str) -> None:
    assert ImageRef.parse(text).short == short


@pytest.mark.parametrize("text", ["", " ", "-v", "a b", "a:b:c", "UPPER", "a//b", "a/", ":x", "a@sha256:12", "x" * 600])
def test_malformed_image_reference_is_refused(text: str) -> None:
    with pytest.raises(ImageError) as raised:
        ImageRef.parse(text)
    assert raised.value.code == "bad_image"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (IMAGE_ID, "image_unpublished", "not published yet"),
        ("{{GAME_IMAGE}}", "image_placeholder", "placeholder"),
        ("file://x", "player_file_unsupported", "file player"),
    ],
)
def test_images_no_engine_can_run(text: str, code: str, message: str) -> None:
    with pytest.raises(ImageError, match=message) as raised:
        ImageRef.parse(text).require_runnable("players[0].image")
    assert raised.value.code == code
    assert raised.value.message.startswith("players[0].image is ")
    assert raised.value.hint
    assert ImageRef.parse("game").require_runnable().text == "game"


def test_content_tag() -> None:
    assert content_tag("ghcr.io/me/game:1.0", DIGEST) == "ghcr.io/me/game:coworld-abababababab"
    assert content_tag("game", "0123456789abcdef") == "game:coworld-0123456789ab"
    with pytest.raises(ValueError, match="not an image id"):
        content_tag("game", "sha256:xyz")
    with pytest.raises(ImageError):
        content_tag("-game", DIGEST)


def test_platforms() -> None:
    assert str(Platform.parse("linux/x86_64")) == "linux/amd64"
    assert Platform.parse("Linux/aarch64/v8") == Platform("linux", "arm64")
    assert Platform.parse("linux/amd64").hosted
    assert not Platform.parse("linux/arm64").hosted
    assert host_platform().os == "linux"
    for text in ("linux", "linux/", "a/b/c/d", ""):
        with pytest.raises(ValueError, match="linux/amd64"):
            Platform.parse(text)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8085", [(8085, None)]),
        ("8085:0", [(8085, None)]),
        ("8085:18085/tcp", [(8085, 18085)]),
        (" 1 , 65535:65535 ", [(1, None), (65535, 65535)]),
    ],
)
def test_extra_ports(text: str, ports: list[tuple[int, int | None]]) -> None:
    assert parse_extra_ports(text) == tuple(ExtraPort(container=c, host=h) for c, h in ports)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "entry 1 is empty"),
        ("8085,,8086", "entry 2 is empty"),
        ("8085/udp", "only tcp"),
        ("8085/", "only tcp"),
        ("8085:1:2", "more than one colon"),
        ("8085:", "nothing after the colon"),
        ("x", "not a decimal number"),
        ("\u0663", "not a decimal number"),
        ("8085:-1", "not a decimal number"),
        ("0", "outside 1..65535"),
        ("65536", "outside 1..65535"),
        ("9" * 50, "outside 1..65535"),
        ("1:65536", "outside 0..65535"),
        ("8080", "always published"),
        ("8085,8085", "repeats container port"),
        ("1:9000,2:9000", "repeats host port"),
    ],
)
def test_extra_ports_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        parse_extra_ports(text)
    assert raised.value.code == "bad_extra_ports"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("250m", "0.25"),
        ("512Mi", str(512 * 2**20)),
        ("1Gi", str(2**30)),
        ("2e3", "2000"),
        ("1E3", "1000"),
        ("5E", "5e18"),
        ("5k", "5000"),
        ("-1", "-1"),
        ("100n", "1e-7"),
    ],
)
def test_quantities(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1GiB", "1K", "one", "1e", "1.2.3", "\u0661", "1" * 50, "0x10"])
def test_malformed_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("cpu", "2Gi"),
        ("cpu", "0.0001"),
        ("cpu", "-1"),
        ("cpu", "1e999"),
        ("memory", "0"),
        ("memory", "256m"),
        ("memory", "0.5"),
        ("memory", "9999Ei"),
        ("ephemeral-storage", "plenty"),
    ],
)
def test_impossible_quantities_are_refused(document: dict[str, Any], resource: str, text: str) -> None:
    document["game"]["runnable"]["resources"]["requests"][resource] = text
    with pytest.raises(ManifestError) as raised:
        load_manifest(document)
    assert [issue.code for issue in raised.value.report.errors] == ["bad_quantity"]
    assert len(raised.value.report.errors[0].message) < 200


@pytest.mark.parametrize(
    "name",
    ["COGAME_PORT", "COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL", "COWORLD_LOCAL_PORT_1", "COWORLD_PLAYER_SEED"],
)
def test_reserved_names(name: str) -> None:
    assert is_reserved_env(name)
    assert is_reserved_env(name, game=True)


def test_names_for_the_author_of_a_game() -> None:
    for name in ("COWORLD_LOCAL_EXTRA_PORTS", "COGAME_RESULTS_METHOD", "COGAME_SAVE_REPLAY_METHOD"):
        assert not is_reserved_env(name, game=True)
        assert is_reserved_env(name)
    assert not is_reserved_env("MY_SETTING")


def test_each_seat_has_a_seed_of_its_own() -> None:
    # With other values, an older episode could not be played again
    assert [player_seed(7, slot) for slot in range(2)] == [462568965, 1713735280]
    seeds = {player_seed(seed, slot) for seed in range(-5, 200) for slot in range(16)}
    assert len(seeds) == 205 * 16
    assert all(0 <= seed < 2**31 for seed in seeds)
    # With a secret, they have nothing to do with those
    secrets = [block_secret(0, 1), block_secret(0, 2), block_secret(1, 1), block_secret(bytes(32), 1)]
    drawn = [player_seed(7, slot, secret=secret) for secret in secrets for slot in range(2)]
    assert drawn == [1727724713, 151695387, 1567816389, 1081710867, 1275655793, 429031061, 1564996556, 990455030]
    assert len({new_player_secret(), new_player_secret(), *secrets}) == 6


def test_placeholders(document: dict[str, Any]) -> None:
    assert placeholder("paint-arena") == "{{PAINT_ARENA_IMAGE}}"
    document["game"]["runnable"]["image"] = "{{TUG_IMAGE}}"
    document["player"][1]["image"] = "{{WAITER_IMAGE}}"
    document["reporter"][0]["image"] = "{{TUG_IMAGE}}"
    assert placeholders(document) == ("{{TUG_IMAGE}}", "{{WAITER_IMAGE}}")


def test_hydrate(document: dict[str, Any]) -> None:
    del document["game"]["version"]
    document["game"]["runnable"]["image"] = "{{TUG_IMAGE}}"
    document["player"][1]["image"] = "{{TUG_WAITER_IMAGE}}"
    manifest = hydrate(document, images={"tug": "tug:7", "tug-waiter": "w:7", "unused": "u"}, version="2.0")
    assert manifest["game"]["version"] == "2.0"
    assert list(manifest["game"])[:2] == ["name", "version"]
    assert manifest["game"]["runnable"]["image"] == "tug:7"
    assert manifest["player"][1]["image"] == "w:7"
    assert manifest["player"][0]["image"] == "registry.example.org/tug:1.2.0"
    assert "version" not in document["game"]
    assert load_manifest(manifest, mode="strict").report.issues == ()


def test_hydrate_of_a_manifest_keeps_nothing_of_its_version(document: dict[str, Any]) -> None:
    manifest = hydrate(document, images={}, version="9.9", file="package/coworld_manifest.json")
    assert manifest["game"]["version"] == "9.9"
    with pytest.raises(ManifestError, match="must not set"):
        hydrate(document, images={}, version="9.9", file="package/template.json")


def test_hydrate_refuses_with_lines() -> None:
    text = b'{\n "game": {"runnable": {"image": "{{TUGG_IMAGE}}"}}\n}'
    with pytest.raises(ManifestError) as raised:
        hydrate(parse_json(text, source="template.json"), images={"tug": "t"}, version="1.0")
    issue = raised.value.report.errors[0]
    assert (issue.line, issue.hint) == (2, 'Did you mean "{{TUG_IMAGE}}"?')
    assert '"tug"' in issue.message
    with pytest.raises(UsageError, match="PEP 440"):
        hydrate({"game": {}}, images={}, version="newest")


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (Exit(reason="exited", code=0), False),
        (Exit(reason="exited", code=1), False),
        (Exit(reason="exited", code=143), True),
        (Exit(reason="signal", signal=15), True),
        (Exit(reason="signal", signal=11), False),
    ],
)
def test_exit_was_told(ended: Exit, told: bool) -> None:
    assert ended.was_terminated is told
