"""Certificates as documents: what any change of one is found by, and what differs from what was certified."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.formats import with_added_fields, with_later_values

from coworld_core.certificate import (
    Authority,
    Certificate,
    CertifiedContent,
    ContentPart,
    StepOutcomes,
    check_seal,
    compare_content,
    compare_manifests,
    directory_part,
    issue_certificate,
    read_certificate,
    signed_bytes,
)
from coworld_core.errors import RecordError
from coworld_core.schemas import certificate_schema

Document = dict[str, Any]
SHA = "0" * 64
VALIDATOR = Draft202012Validator(certificate_schema())
WHEN = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


class Hmac:
    """Stands in for a private key: what it signs depends on every byte."""

    public_key = b"k" * 32

    def sign(self, data: bytes) -> bytes:
        return hashlib.sha512(self.public_key + data).digest()


TEXTS = st.text(max_size=12)
DIGESTS = st.sampled_from(["", "sha256:" + SHA, "sha256:" + "1" * 64])
PARTS = st.builds(
    directory_part, st.just("sources"), TEXTS, st.dictionaries(TEXTS, st.just(SHA), min_size=1, max_size=3)
) | st.builds(ContentPart, kind=st.sampled_from(["image", "file"]), name=TEXTS, digest=DIGESTS)
CERTIFICATES = st.builds(
    Certificate,
    id=st.just(""),
    coworld=TEXTS,
    version=TEXTS,
    verdict=st.sampled_from(["Executable", None]),
    published=st.sampled_from(["0.1.26", None]),
    caveats=st.lists(TEXTS, max_size=2).map(tuple),
    content=st.builds(CertifiedContent.of, st.just(SHA), st.lists(PARTS, max_size=3)),
    transcript=st.builds(
        StepOutcomes,
        name=TEXTS,
        definition_sha256=st.just(SHA),
        outcomes_digest=DIGESTS,
        record_sha256=st.just(SHA),
    ),
    backend=TEXTS,
    run_id=TEXTS,
    started_at=st.just(WHEN),
    ended_at=st.datetimes(timezones=st.just(dt.UTC)),
    versions=st.dictionaries(TEXTS, TEXTS, max_size=2),
    authority=st.builds(Authority, name=TEXTS, host=TEXTS),
)


def certified(*parts: ContentPart, **changes: Any) -> Certificate:
    draft: dict[str, Any] = {
        "id": "",
        "coworld": "counting",
        "version": "1.2.3",
        "verdict": "Executable",
        "content": CertifiedContent.of(
            SHA, parts or (directory_part("sources", "game", {"game.py": SHA, "a/b.py": SHA}),)
        ),
        "transcript": StepOutcomes(
            name="coworld-executable", definition_sha256=SHA, outcomes_digest=f"sha256:{SHA}", record_sha256=SHA
        ),
        "backend": "process",
        "run_id": "0123456789abcdef",
        "started_at": WHEN,
        "ended_at": WHEN,
        "versions": {"coworld-core": "0.2.0"},
        "authority": Authority(name="ada", host="here"),
    }
    return issue_certificate(Certificate.model_validate({**draft, **changes}), signer=Hmac())


def codes(document: Document) -> set[str]:
    certificate, raw = read_certificate(document)
    return {issue.code for issue in check_seal(certificate, raw)}


@given(draft=CERTIFICATES, signed=st.booleans())
def test_a_certificate_is_read_as_it_was_written(draft: Certificate, signed: bool) -> None:
    written = issue_certificate(draft, signer=Hmac() if signed else None)
    again, document = read_certificate(written.to_json().encode())
    assert again == written
    assert again.to_json() == written.to_json()
    VALIDATOR.validate(document)
    assert (
        check_seal(again, document) == []
        if written.verdict
        else [i.code for i in check_seal(again, document)] == ["no_degree"]
    )
    if signed:
        assert written.signature is not None
        assert written.signature.value == Hmac().sign(signed_bytes(document)).hex()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value that is no object or list, and of every object and list that is empty."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items += cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        items += enumerate(cast("list[Any]", value))
    if not items:
        yield path
    for key, item in items:
        yield from leaves(item, (*path, key))


WHOLE = json.loads(certified().to_json())


@given(
    path=st.sampled_from([path for path in leaves(WHOLE) if path[0] != "signature"]),
    text=st.text(min_size=1, max_size=5),
)
def test_any_changed_field_is_found(path: tuple[Any, ...], text: str) -> None:
    document = json.loads(json.dumps(WHOLE))
    place = document
    for key in path[:-1]:
        place = place[key]
    value = place[path[-1]]
    place[path[-1]] = [text] if isinstance(value, list) else value + 1 if isinstance(value, int) else f"{value}{text}"
    try:
        certificate, raw = read_certificate(document)
    except RecordError:
        return  # Times and the like are refused by their shape
    assert "certificate_changed" in {issue.code for issue in check_seal(certificate, raw)}
    # And the signature is over something else
    if path[0] != "id":
        assert signed_bytes(document) != signed_bytes(WHOLE)


def test_fields_of_a_later_version_are_kept_and_sealed() -> None:
    later = with_later_values(with_added_fields(WHOLE))
    certificate, raw = read_certificate(later)
    assert json.loads(certificate.to_json()) == later
    assert "certificate_changed" in codes(later)
    del later["added_later"]
    assert signed_bytes(later) != signed_bytes(raw)


@pytest.mark.parametrize("cut", [0, 1, 100, len(json.dumps(WHOLE)) - 1])
def test_a_cut_file_is_no_certificate(cut: int) -> None:
    with pytest.raises(RecordError):
        read_certificate(json.dumps(WHOLE)[:cut].encode())


def test_a_document_without_its_content_is_no_certificate() -> None:
    document = {key: value for key, value in WHOLE.items() if key != "content"}
    with pytest.raises(RecordError, match="content"):
        read_certificate(document)


def test_digests_of_parts_belong_to_their_files_even_with_a_right_id() -> None:
    forged = certified().content.model_dump(mode="json")
    forged["parts"][0]["files"]["game.py"] = "1" * 64
    document = json.loads(certified(content=CertifiedContent.model_validate(forged)).to_json())
    assert codes(document) == {"content_inconsistent"}
    assert codes(json.loads(certified(verdict=None).to_json())) == {"no_degree"}
    assert codes(WHOLE) == set()


# --- the same Coworld? ----------------------------------------------------------------------------------------------

IMAGE = ContentPart(kind="image", name="game:1", digest="sha256:" + "a" * 64)
SOURCES = directory_part("sources", "game", {"game.py": SHA, "a/b.py": SHA})
VIEWER = directory_part("viewer", "build/viewer", {"index.html": SHA})
BEFORE = CertifiedContent.of(SHA, (IMAGE, SOURCES, VIEWER))


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (BEFORE, {}),
        (CertifiedContent.of("1" * 64, BEFORE.parts), {"manifest_differs": "manifest"}),
        (
            CertifiedContent.of(SHA, (IMAGE.model_copy(update={"digest": "sha256:b"}), SOURCES, VIEWER)),
            {"image_differs": "game:1"},
        ),
        (
            CertifiedContent.of(SHA, (IMAGE.model_copy(update={"digest": ""}), SOURCES, VIEWER)),
            {"digest_unknown": "game:1"},
        ),
        (
            CertifiedContent.of(
                SHA, (IMAGE, directory_part("sources", "game", {"game.py": "1" * 64, "new": SHA}), VIEWER)
            ),
            {"sources_differs": "a/b.py is missing, game.py is different and new is new"},
        ),
        (CertifiedContent.of(SHA, (IMAGE, SOURCES)), {"viewer_missing": "build/viewer"}),
        (
            CertifiedContent.of(SHA, (*BEFORE.parts, ContentPart(kind="file", name="bot.py", digest=""))),
            {"file_added": "bot.py"},
        ),
    ],
)
def test_every_difference_is_named(now: CertifiedContent, found: dict[str, str]) -> None:
    issues = {issue.code: issue for issue in compare_content(BEFORE, now)}
    assert issues.keys() == found.keys()
    assert all(words in issues[code].message for code, words in found.items())
    assert {issue.severity for issue in issues.values()} <= ({"warning"} if "digest_unknown" in found else {"error"})
    assert (now.digest == BEFORE.digest) is not bool(found)


MANIFEST: Document = {
    "game": {"name": "a", "a/b": 1},
    "player": [{"id": "x"}, {"id": "y"}],
    "flag": True,
    "none": None,
}


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({}, []),
        ({"game": {"name": "b", "a/b": 1}}, ["/game/name"]),
        ({"game": {"name": "a", "a/b": 2}}, ["/game/a~1b"]),
        ({"player": [{"id": "x"}, {"id": "y"}, {"id": "z"}]}, ["/player/2"]),
        ({"player": [{"id": "x"}]}, ["/player/1"]),
        ({"player": [{"id": ["x"]}, {"id": "y"}]}, ["/player/0/id"]),
        ({"flag": 1, "none": False, "new": {}}, ["/flag", "/new", "/none"]),
    ],
)
def test_manifests_differ_at_pointers(changes: Document, pointers: list[str]) -> None:
    assert compare_manifests(MANIFEST, {**MANIFEST, **changes}) == pointers
