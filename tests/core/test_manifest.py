"""The models: what they hold, how they look, and that they are the strict form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from coworld_core import Manifest, dump_manifest, load_manifest
from coworld_core.episode.request import JobSpec
from coworld_core.errors import ManifestError
from coworld_core.manifest import models as module
from coworld_core.manifest.manifest_file import manifest_sha256
from coworld_core.manifest.models import ResourceRequests, RoleRunnable, Runnable

MODELS = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, BaseModel)]
MODELS = [model for model in MODELS if model is not BaseModel and model.model_fields] + [JobSpec]


def test_there_are_as_many_models_as_published() -> None:
    assert len(MODELS) == 24


@pytest.mark.parametrize("model", MODELS)
def test_every_field_has_a_description(model: type[BaseModel]) -> None:
    assert model.__doc__
    for name, info in model.model_fields.items():
        assert info.description, f"{model.__name__}.{name}"
        assert info.description.endswith("."), f"{model.__name__}.{name}"


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_frozen_and_closed(model: type[BaseModel]) -> None:
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "forbid"


def test_values_cannot_be_changed(document: dict[str, Any]) -> None:
    manifest = load_manifest(document).manifest
    with pytest.raises(ValidationError, match="frozen"):
        manifest.game.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_repr_is_short(document: dict[str, Any]) -> None:
    document["game"]["docs"]["readme"]["value"] = "x" * 10_000
    loaded = load_manifest(document)
    manifest = loaded.manifest
    assert repr(manifest) == "<Manifest tug 1.2.0: 2 players, 2 variants, 1 reporter>"
    assert str(manifest) == repr(manifest)
    assert repr(manifest.player[0]) == "<RoleRunnable player 'puller': registry.example.org/tug:1.2.0>"
    assert repr(manifest.game) == "<GameManifest tug 1.2.0>"
    assert repr(manifest.variants[0]) == "<Variant 'default': Default>"
    assert repr(manifest.certification) == "<CertificationFixture puller, waiter>"
    assert repr(manifest.game.protocols.global_) == "<UriDoc https://example.org/global.md>"
    assert "10000 characters" in repr(manifest.game.docs.readme)
    for value in (loaded, manifest.game.docs, manifest.game.docs.pages[0], manifest.game.protocols):
        assert len(repr(value)) < 300


def test_html_is_small_and_inert(document: dict[str, Any]) -> None:
    document["player"][0]["description"] = "<script>alert(1)</script> & more"
    html = load_manifest(document)._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "tug 1.2.0" in html
    assert len(html) < 2000


def test_sections_and_images(document: dict[str, Any]) -> None:
    manifest = load_manifest(document).manifest
    assert [entry.id for entry in manifest.roles()] == ["puller", "waiter", "summary"]
    assert manifest.images() == ("registry.example.org/tug:1.2.0", "tug-waiter:latest", "tug-reporter:1")
    assert [entry.id for entry in manifest.section("reporter")] == ["summary"]
    assert not manifest.is_template


def test_projection_to_a_runnable(document: dict[str, Any]) -> None:
    player = load_manifest(document).manifest.player[0]
    runnable = player.as_runnable()
    assert isinstance(runnable, Runnable)
    assert not isinstance(runnable, RoleRunnable)
    assert runnable.model_dump(exclude_defaults=True) == {
        "type": "player",
        "image": "registry.example.org/tug:1.2.0",
        "run": ("tug-player",),
        "env": {"STRENGTH": "3"},
    }


def test_both_names_of_ephemeral_storage(document: dict[str, Any]) -> None:
    assert ResourceRequests(ephemeral_storage="1Gi") == ResourceRequests.model_validate({"ephemeral-storage": "1Gi"})
    requests = document["game"]["runnable"]["resources"]["requests"]
    requests["ephemeral_storage"] = requests.pop("ephemeral-storage")
    resources = load_manifest(document, mode="strict").manifest.game.runnable.resources
    assert resources is not None
    assert resources.requests is not None
    assert resources.requests.ephemeral_storage == "1Gi"


def test_line_ends_of_page_ids_are_dropped(document: dict[str, Any]) -> None:
    document["game"]["docs"]["pages"][0]["id"] = "rules.md\r\n"
    assert load_manifest(document).manifest.game.docs.pages[0].id == "rules.md"


def test_dump_is_strict_and_complete(document: dict[str, Any]) -> None:
    manifest = load_manifest(document).manifest
    text = dump_manifest(manifest)
    assert text.endswith("}\n")
    assert '\n  "game": {' in text
    again = load_manifest(text.encode(), mode="strict")
    assert again.manifest == manifest
    assert again.report.issues == ()
    assert dump_manifest(again.manifest) == text


def test_dump_drops_nulls_of_fields_but_none_of_configs(document: dict[str, Any]) -> None:
    raw = json.loads(dump_manifest(load_manifest(document).manifest))
    assert raw["variants"][0]["game_config"]["seed"] is None
    assert raw["game"]["config_schema"]["properties"]["seed"]["default"] is None
    assert "source_url" not in raw["player"][0]
    assert "resources" not in raw["player"][0]
    assert "ephemeral-storage" in raw["game"]["runnable"]["resources"]["requests"]
    assert raw["$schema"] == document["$schema"]


def test_dump_refuses_what_is_not_strict(document: dict[str, Any]) -> None:
    document["player"][1]["colour"] = "red"
    manifest = load_manifest(document).manifest
    with pytest.raises(ManifestError) as raised:
        dump_manifest(manifest)
    assert [issue.code for issue in raised.value.report.errors] == ["unknown_field"]


def test_dump_of_a_template(document: dict[str, Any]) -> None:
    document["game"]["runnable"]["image"] = "{{TUG_IMAGE}}"
    manifest = load_manifest(document, template=True).manifest
    assert manifest.is_template
    assert "{{TUG_IMAGE}}" in dump_manifest(manifest, template=True)
    with pytest.raises(ManifestError, match="template"):
        dump_manifest(manifest)


def test_digest_is_of_the_content(document: dict[str, Any]) -> None:
    manifest = load_manifest(document).manifest
    digest = manifest_sha256(manifest)
    document["player"][0]["source_url"] = None
    document["game"] = dict(reversed(document["game"].items()))
    assert manifest_sha256(load_manifest(document).manifest) == digest
    document["game"]["owner"] = "someone.else@example.org"
    assert manifest_sha256(load_manifest(document).manifest) != digest
    assert len(digest) == 64


def test_models_refuse_by_themselves(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="hyphen"):
        Runnable(type="player", image="-v")
    with pytest.raises(ValidationError, match="contains a slash"):
        Manifest.model_validate({**document, "variants": [{**document["variants"][0], "id": "a/b"}]})
    with pytest.raises(ValidationError, match="NUL"):
        Runnable(type="player", image="a", run=("a", "b\0"))
