"""A run's provenance in the words of others: an in-toto statement with SLSA's predicate, in a signed envelope (DSSE).

It says what the record says, for tools that know nothing of Coworlds; whoever has the public key can check it.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final, cast

from coworld_core.documents.canonical_json import canonical_json
from coworld_core.documents.json_text import parse_json
from coworld_core.documents.seals import ED25519, Signature, Signer, key_id_of
from coworld_core.episode.record import EpisodeRecord
from coworld_core.files.regular import read_regular

from ..signing_keys import check_signature
from .verification_record import ChangedFile

__all__ = ["PROVENANCE_NAME", "changed_provenance", "provenance_of", "signed_provenance"]

PROVENANCE_NAME: Final = "provenance.intoto.json"
"""Its file in the directory of a signed run."""

_TYPE: Final = "application/vnd.in-toto+json"
_MOST: Final = 16 << 20


def provenance_of(record: EpisodeRecord) -> dict[str, Any]:
    """The statement: the files of a run are its subjects, what was played its parameters and dependencies."""
    images = [("game", record.game.image)] if record.game is not None else []
    images += [(f"player {seat.slot}", seat.image) for seat in record.slots]
    dependencies = [_resource(f"{record.coworld} {record.version}", "manifest", record.manifest_sha256)]
    dependencies += [_resource(image.image, role, image.digest.removeprefix("sha256:")) for role, image in images]
    builder = f"pkg:pypi/coworld-runner@{record.versions.get('coworld-runner', '')}"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.path, "digest": {"sha256": file.sha256}} for file in record.artifacts],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "pkg:pypi/coworld-runner#episode",
                "externalParameters": {
                    "variant": record.variant,
                    "seed": record.seed,
                    "game_config": record.game_config,
                    "players": [
                        {"slot": seat.slot, "name": seat.name, "player_version": seat.player_version}
                        for seat in record.slots
                    ],
                },
                "internalParameters": {"backend": record.backend},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": {"id": builder, "version": record.versions},
                "metadata": {
                    "invocationId": record.run_id,
                    "startedOn": record.started_at.isoformat(),
                    "finishedOn": record.ended_at.isoformat(),
                },
                "byproducts": [_resource("episode.json", "record", record.digest.removeprefix("sha256:"))],
            },
        },
    }


def _resource(name: str, role: str, sha256: str) -> dict[str, Any]:
    return {"name": name, "annotations": {"role": role}, **({"digest": {"sha256": sha256}} if sha256 else {})}


def signed_provenance(record: EpisodeRecord, signer: Signer) -> bytes:
    """The statement of a record in a signed envelope, as its file."""
    payload = canonical_json(provenance_of(record))
    return _envelope(payload, signer.sign(_authenticated(payload)), signer.public_key)


def _envelope(payload: bytes, signature: bytes, public_key: bytes) -> bytes:
    signed = {"keyid": key_id_of(public_key), "sig": base64.b64encode(signature).decode()}
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": _TYPE, "signatures": [signed]}
    return (json.dumps(envelope, indent=2) + "\n").encode()


def _authenticated(payload: bytes) -> bytes:
    """What an envelope's signature is over."""
    return b"DSSEv1 %d %s %d %s" % (len(_TYPE), _TYPE.encode(), len(payload), payload)


def changed_provenance(path: Path, record: EpisodeRecord) -> list[ChangedFile]:
    """Compare the provenance of a signed run with its record, and check its signature; there may be none."""
    try:
        data = read_regular(path, most=_MOST)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [ChangedFile(path=path.name, problem=f"cannot be read: {error.strerror}")]
    if record.signature is None:
        return [ChangedFile(path=path.name, problem="is of a record that is not signed")]
    public = record.signature.public_key
    try:
        (signature,) = cast("Any", parse_json(data, source=path.name, max_bytes=_MOST).value)["signatures"]
        signed, key = base64.b64decode(signature["sig"]), bytes.fromhex(public)
    except (KeyError, TypeError, ValueError):
        return [ChangedFile(path=path.name, problem="is not an envelope with one signature")]
    payload = canonical_json(provenance_of(record))
    if data != _envelope(payload, signed, key):
        return [ChangedFile(path=path.name, problem="does not say what the record says")]
    whole = Signature(algorithm=ED25519, public_key=public, value=signed.hex())
    return [
        ChangedFile(path=path.name, problem=f"has no signature that holds: {issue.message.rstrip('.')}")
        for issue in check_signature(whole, _authenticated(payload), of="provenance", trusted=None)
        if issue.severity == "error"
    ]
