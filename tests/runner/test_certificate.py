"""Certificates of certifications: made, signed, and checked against their evidence and their package."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.small_world import MANIFEST, WithImages, fast, package_of, world

from coworld_core.certificate import Certificate, certificate_digest, issue_certificate, read_certificate
from coworld_core.errors import EnvironmentFault, RecordError, UsageError
from coworld_runner.certification import (
    check_certificate,
    make_key,
    public_path,
    read_public_keys,
    read_signing_key,
    signing_keys,
)
from coworld_runner.certification.package_content import content_of, package_files
from coworld_runner.images.compose import contexts_for
from coworld_runner.package.resolver import Package, resolve_package
from coworld_runner.testing.fake_backend import FakeBackend

Evidence = tuple[Path, Package, FakeBackend]
Document = dict[str, Any]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """A signed certificate with its evidence, its package, and the backend with its images."""
    place = tmp_path_factory.mktemp("certified")
    make_key(place / "key")
    options = replace(fast(), signer=read_signing_key(place / "key"), authority="Ada\x1b[31m", published="0.1.26")

    async def certify() -> Evidence:
        async with world(backend=WithImages) as good:
            assert (await good.certify(place / "out", options=options)).ok
            return place / "out", good.package, good.backend

    return anyio.run(certify)


@pytest.fixture
def certified(original: Evidence, tmp_path: Path) -> Evidence:
    """A copy to change."""
    directory, package, backend = original
    shutil.copytree(directory, tmp_path / "out", ignore=shutil.ignore_patterns("episode", "logs", "same*", "*-*"))
    shutil.copy(directory.parent / "key.pub", tmp_path)
    return tmp_path / "out", package, backend


async def found(
    evidence: Evidence, *, package: bool = True, keys: Path | None = None, backend: bool = True
) -> dict[str, str]:
    """The findings about a certificate: severity by code."""
    directory, its, engine = evidence
    async with engine:
        checked = await check_certificate(
            directory,
            its if package else None,
            backend=engine if backend else None,
            trusted=read_public_keys(keys) if keys else None,
        )
    assert checked.ok is not any(issue.severity == "error" for issue in checked.report.issues)
    return {issue.code: issue.severity for issue in checked.report.issues}


def rewrite(evidence: Evidence, change: Callable[[Document], object], *, seal: bool = True) -> None:
    """Change a certificate, with its id unless `seal` is False."""
    path = evidence[0] / "certificate.json"
    document = json.loads(path.read_bytes())
    change(document)
    if seal:
        document["id"] = certificate_digest(document)
    path.write_text(json.dumps(document))


async def test_a_signed_certificate_and_every_way_to_break_it(certified: Evidence, tmp_path: Path) -> None:
    right = {"record_right": "info", "content_right": "info"}
    assert await found(certified, keys=tmp_path / "key.pub") == {**right, "signature_right": "info"}
    assert await found(certified) == {**right, "key_unchecked": "warning"}
    assert "package_not_given" in await found(certified, package=False)
    certificate, before = read_certificate(certified[0])
    assert (certificate.authority.name, certificate.published) == ("Ada", "0.1.26")
    assert certificate.content.manifest_sha256 == certified[1].sha256
    assert {part.kind for part in certificate.content.parts} == {"image"}

    other = make_key(tmp_path / "other")
    assert "key_untrusted" in await found(certified, package=False, keys=tmp_path / "other.pub")
    (tmp_path / "trusted").mkdir()
    for name in ("key.pub", "other.pub"):
        shutil.copy(tmp_path / name, tmp_path / "trusted")
    assert "signature_right" in await found(certified, package=False, keys=tmp_path / "trusted")

    def signature(**changes: str) -> Callable[[Document], object]:
        return lambda document: document["signature"].update(changes)

    broken: list[tuple[Callable[[Document], object], bool, str]] = [
        (lambda document: document.update(coworld="another"), False, "certificate_changed"),
        (lambda document: document.update(coworld="another"), True, "signature_wrong"),
        (lambda document: document["authority"].update(key_id=None), True, "key_differs"),
        (signature(algorithm="rsa-sha1"), True, "algorithm_unknown"),
        (signature(value=before["signature"]["value"][:-2]), True, "signature_malformed"),
        (signature(public_key="none"), True, "signature_malformed"),
        (signature(public_key=other.public_key.hex()), True, "signature_wrong"),
        (lambda document: document.update(signature=None), True, "unsigned"),
    ]
    for change, seal, code in broken:
        rewrite(certified, change, seal=seal)
        assert (await found(certified, package=False, keys=tmp_path / "key.pub")).get(code) == "error", code
        (certified[0] / "certificate.json").write_text(json.dumps(before))
    rewrite(certified, lambda document: document.update(signature=None))
    assert (await found(certified, package=False))["unsigned"] == "warning"
    # A key of one's own signs anything, but is not the one that is trusted
    forged = issue_certificate(Certificate.model_validate({**before, "coworld": "mine"}), signer=other)
    (certified[0] / "certificate.json").write_text(forged.to_json())
    assert "key_unchecked" in await found(certified, package=False)
    assert (await found(certified, package=False, keys=tmp_path / "key.pub"))["key_untrusted"] == "error"

    (certified[0] / "certificate.json").write_text(json.dumps(before)[:-40])
    with pytest.raises(RecordError):
        await found(certified)


async def test_evidence_and_package_that_have_changed(certified: Evidence) -> None:
    directory, package, backend = certified
    record = directory / "certification.json"
    text = record.read_text()
    record.write_text(text.replace("Played to its end", "Played to the end", 1))
    assert (await found(certified, package=False))["record_differs"] == "error"
    changed = json.loads(text)
    changed["steps"][4]["status"] = "fail"
    record.write_text(json.dumps(changed))
    assert (await found(certified, package=False))["outcomes_differ"] == "error"
    record.write_text(json.dumps({**changed, "verdict": None}))
    assert (await found(certified, package=False))["record_contradicts"] == "error"
    record.write_text(text[:1000])
    assert (await found(certified, package=False))["record_unreadable"] == "error"
    record.unlink()
    assert (await found(certified, package=False))["record_missing"] == "warning"

    manifest = package.manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    manifest["player"][1]["description"] = "Counts higher."
    other = package_of(manifest)
    checked = await check_certificate(directory, other, backend=None)
    (issue,) = [issue for issue in checked.report.errors if issue.code == "manifest_differs"]
    assert "It differs in /player/1/description." in issue.message
    (directory / "certified_manifest.json").write_text("{}")
    checked = await check_certificate(directory, other, backend=None)
    (issue,) = [issue for issue in checked.report.errors if issue.code == "manifest_differs"]
    assert "is not beside the certificate" in issue.message
    # Without an engine nothing says which images there are
    assert (await found((directory, package, backend), backend=False))["digest_unknown"] == "warning"


def _no_module(_: str) -> None:
    return None


# --- keys ---------------------------------------------------------------------------------------------------------


def test_keys_are_for_their_owner_and_never_replaced(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_public_keys(public_path(tmp_path / "key")) == [key.public_key]
    assert read_signing_key(tmp_path / "key").key_id == key.key_id
    secret = (tmp_path / "key").read_bytes()
    assert secret.splitlines()[1].decode() not in repr(key)
    with pytest.raises(UsageError) as caught:
        make_key(tmp_path / "key")
    assert (caught.value.code, (tmp_path / "key").read_bytes()) == ("key_exists", secret)
    (tmp_path / "new.pub").touch()
    with pytest.raises(UsageError, match=r"new\.pub"):
        make_key(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_no_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    make_key(tmp_path / "key")
    pem, whole = serialization.Encoding.PEM, (tmp_path / "key").read_bytes()
    curve = ec.generate_private_key(ec.SECP256R1())
    files = {
        "of another kind": curve.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        "cut": whole[:60],
        "public": (tmp_path / "key.pub").read_bytes(),
        "nothing": b"",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)
        with pytest.raises(UsageError) as caught:
            read_signing_key(tmp_path / name)
        assert caught.value.code == "bad_key", name
        if name != "public":
            with pytest.raises(UsageError, match="not an ed25519 public key"):
                read_public_keys(tmp_path / name)
    with pytest.raises(UsageError, match="public key"):
        read_public_keys(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(UsageError) as caught:
        read_signing_key(tmp_path / "key")
    assert caught.value.code == "key_exposed"
    with pytest.raises(UsageError) as caught:
        read_signing_key(tmp_path / "none")
    assert caught.value.code == "key_missing"
    monkeypatch.setattr(signing_keys, "find_spec", _no_module)
    with pytest.raises(EnvironmentFault, match=r"coworld-runner\[sign\]"):
        make_key(tmp_path / "third")


# --- the content of a package -------------------------------------------------------------------------------------


async def test_the_sources_of_a_package_and_nothing_else(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/nim"
    package = tmp_path / "nim"
    shutil.copytree(example, package, ignore=shutil.ignore_patterns("results", "__pycache__"))

    async def digest() -> str:
        resolved = await resolve_package(package)
        parts = await anyio.to_thread.run_sync(lambda: package_files(resolved, sources=True))
        (part,) = parts
        assert {"nim.py", "players/counter.py", "Dockerfile"} <= part.files.keys()
        assert "coworld_manifest_template.json" not in part.files
        return content_of(resolved.manifest, parts, None).digest

    before = await digest()
    for name in ("results/certification/1", "__pycache__", ".git", "certified"):
        (package / name).mkdir(parents=True)
        (package / name / "new").touch()
    (package / "certified/events.ndjson").touch()
    assert await digest() == before
    template = package / "coworld_manifest_template.json"
    template.write_text(json.dumps(json.loads(template.read_bytes())))
    assert await digest() == before
    seen = {before}
    changes: list[Callable[[], object]] = [
        lambda: (package / "players/counter.py").write_text("# changed"),
        lambda: (package / "players/link.py").symlink_to("counter.py"),
        lambda: (package / "Dockerfile").write_text("FROM scratch\n"),
        lambda: (package / "players/random_taker.py").rename(package / "players/renamed.py"),
    ]
    for change in changes:
        change()
        seen.add(await digest())
    assert len(seen) == 1 + len(changes)
    assert contexts_for(template)


def test_files_that_a_manifest_names_and_that_are_not_there(tmp_path: Path) -> None:
    document = json.loads(json.dumps(MANIFEST))
    document["game"]["replay_viewer"] = {"bundle": "viewer"}
    package = package_of(document, tmp_path / "coworld_manifest.json")

    def viewer() -> str:
        async def look() -> str:
            (part,) = await anyio.to_thread.run_sync(lambda: package_files(package, sources=False))
            assert (part.kind, part.name) == ("viewer", "viewer")
            return part.digest

        return anyio.run(look)

    assert viewer() == ""
    (tmp_path / "viewer").mkdir()
    (tmp_path / "viewer/index.html").write_text("<p>")
    before = viewer()
    assert before.startswith("sha256:")
    (tmp_path / "viewer/index.html").write_text("<b>")
    assert viewer() not in (before, "")
