"""Secrets at rest: encrypted, with a key that is elsewhere, and read by nobody who has only one of the two."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from cryptography.fernet import Fernet

from coworld_core.errors import CoworldError, EnvironmentFault
from observatory.cli import main
from observatory.settings import Settings
from observatory.store.vault import Vault

VALUE = b"hunter2\x00\xff"


async def opened(tmp_path: Path, key: str = "o.key") -> Vault:
    return await Vault.open(tmp_path / "o" / "secrets", tmp_path / key)


def files(tmp_path: Path) -> list[Path]:
    return sorted(path for path in tmp_path.rglob("*") if path.is_file())


def contents(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files(tmp_path)}


async def test_secret_is_encrypted_on_disk(tmp_path: Path) -> None:
    vault = await opened(tmp_path)
    await vault.put("coworld", "one", VALUE)
    await vault.put("coworld", "empty", b"")
    assert await vault.get("coworld", "one") == VALUE
    assert await vault.get("coworld", "empty") == b""
    # Whoever comes later, with the same key
    assert await (await opened(tmp_path)).get("coworld", "one") == VALUE
    assert all(b"hunter2" not in content for content in contents(tmp_path).values())
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} == {0o600}
    assert sorted(path.name for path in files(tmp_path)) == [".key-check", "empty", "o.key", "one"]
    await vault.delete("coworld", "one")
    with pytest.raises(FileNotFoundError):
        await vault.get("coworld", "one")


async def test_concurrent_starts_agree_on_one_key(tmp_path: Path) -> None:
    vaults: list[Vault] = []

    async def begin(number: int) -> None:
        vault = await opened(tmp_path)
        await vault.put("coworld", str(number), VALUE)
        vaults.append(vault)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(begin, number)
    assert [await vaults[-number].get("coworld", str(number)) for number in range(8)] == [VALUE] * 8
    assert [path.name for path in files(tmp_path) if path.parent == tmp_path] == ["o.key"]


async def refused(tmp_path: Path, key: str = "o.key") -> CoworldError:
    with pytest.raises(EnvironmentFault) as error:
        await opened(tmp_path, key)
    assert error.value.hint
    return error.value


async def test_missing_key_is_not_replaced(tmp_path: Path) -> None:
    await (await opened(tmp_path)).put("coworld", "one", VALUE)
    key = (tmp_path / "o.key").read_bytes()
    (tmp_path / "o.key").unlink()
    assert (await refused(tmp_path)).code == "key_missing"
    assert not (tmp_path / "o.key").exists()
    (tmp_path / "o.key").write_bytes(Fernet.generate_key())
    assert (await refused(tmp_path)).code == "key_wrong"
    (tmp_path / "o.key").write_bytes(b"no key")
    assert (await refused(tmp_path)).code == "key_unusable"
    assert (await refused(tmp_path, "nowhere/o.key")).code == "key_missing"
    (tmp_path / "o.key").write_bytes(key)
    assert await (await opened(tmp_path)).get("coworld", "one") == VALUE
    # It was written with the permissions of the moment, and is put right
    assert (tmp_path / "o.key").stat().st_mode & 0o777 == 0o600


async def test_unwritable_key_file_is_reported(tmp_path: Path) -> None:
    assert (await refused(tmp_path, "nowhere/o.key")).code == "key_unusable"


async def test_tampered_secret_is_not_returned(tmp_path: Path) -> None:
    vault = await opened(tmp_path)
    await vault.put("coworld", "one", VALUE)
    place = tmp_path / "o" / "secrets" / "coworld" / "one"
    for content in (place.read_bytes()[:-2] + b"xx", b"plain", b""):
        place.write_bytes(content)
        with pytest.raises(EnvironmentFault) as error:
            await vault.get("coworld", "one")
        assert error.value.code == "key_wrong"
        assert "plain" not in str(error.value)


def test_missing_key_is_reported_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Settings(data=tmp_path / "o").key_file == tmp_path / "o.key"

    def run(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as left:
            main(("user", "list", "--json", "--data", str(tmp_path / "o"), *arguments))
        return left.value.code, capsys.readouterr().out

    assert run("--key", str(tmp_path / "mine"))[0] == 0
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
    status, out = run()
    assert (status, json.loads(out)["error"]["code"]) == (3, "key_missing")
    shutil.rmtree(tmp_path / "o" / "secrets")
    assert run()[0] == 0
    assert (tmp_path / "o.key").exists()
