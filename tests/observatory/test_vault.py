"""The key of an installation, and secrets at rest: read by nobody who has only the key or only the rest."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
from support.observatory import inside

from coworld_core.errors import CoworldError, EnvironmentFault
from observatory.cli import main
from observatory.settings import Settings, database_url
from observatory.store.database import Database, open_database
from observatory.store.models import InstallationKey
from observatory.store.vault import Vault

VALUE = b"hunter2\x00\xff"


async def opened(stack: AsyncExitStack, tmp_path: Path, url: str | None = None) -> Database:
    database = await stack.enter_async_context(open_database(database_url(url, tmp_path)))
    await database.upgrade()
    return database


async def test_concurrent_starts_agree_on_one_key(tmp_path: Path, database: str | None) -> None:
    vaults: list[Vault] = []
    async with AsyncExitStack() as stack:
        base = await opened(stack, tmp_path, database)

        async def begin() -> None:
            vaults.append(await Vault.open(base, tmp_path / "o.key"))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(begin)
        assert {vaults[0].unseal(vault.seal(VALUE)) for vault in vaults} == {VALUE}
        assert {vault.key("links") for vault in vaults} == {vaults[0].key("links")}
        assert vaults[0].key("links") not in (vaults[0].key("secrets"), vaults[0].key("servers"))
        assert (tmp_path / "o.key").stat().st_mode & 0o777 == 0o600
        async with base.reading() as session:
            [known] = await session.scalars(sa.select(InstallationKey.fingerprint))
        assert known == vaults[0].key("fingerprint").hex()
    assert [path.name for path in _files(tmp_path) if ".key" in path.name] == ["o.key"]


async def test_another_key_is_refused_and_none_is_made(tmp_path: Path) -> None:
    key = tmp_path / "o.key"
    async with AsyncExitStack() as stack:
        base = await opened(stack, tmp_path)

        async def refused(file: Path = key) -> str:
            with pytest.raises(EnvironmentFault) as error:
                await Vault.open(base, file)
            assert error.value.hint
            return error.value.code

        assert await refused(tmp_path / "nowhere/o.key") == "key_unusable"
        sealed = (await Vault.open(base, key)).seal(VALUE)
        assert VALUE not in sealed
        kept = key.read_bytes()
        key.unlink()
        assert await refused() == "key_missing"
        assert not key.exists()
        key.write_bytes(b"x" * 32)
        assert await refused() == "key_wrong"
        key.write_bytes(b"no key")
        assert await refused() == "key_unusable"
        key.write_bytes(kept)
        assert (await Vault.open(base, key)).unseal(sealed) == VALUE
        # It was written with the permissions of the moment, and is put right
        assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", [lambda sealed: sealed[:-2] + b"xx", lambda _: b"plain", lambda _: b""])
def test_tampered_secret_is_not_returned(change: object) -> None:
    vault = Vault(b"k" * 32)
    with pytest.raises(CoworldError) as error:
        vault.unseal(change(vault.seal(VALUE)))  # type: ignore[operator]
    assert error.value.code == "key_wrong"
    assert "plain" not in str(error.value)


async def test_secrets_are_encrypted_in_the_directory(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        made = await platform.post("/stats/policy-secret-envs", ann, {"policy_secret_env": {"HUSH": "hunter2"}})
        async with platform.services.database.reading() as session:
            assert await platform.services.vault.policy_env(session, made["id"]) == {"HUSH": "hunter2"}
    assert all(b"hunter2" not in path.read_bytes() for path in _files(tmp_path))


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_missing_key_is_reported_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Settings(data=tmp_path / "o").key_file == tmp_path / "o.key"

    def run(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as left:
            main(("user", "list", "--json", "--data", str(tmp_path / "o"), *arguments))
        return left.value.code, capsys.readouterr().out

    assert run("--secret-key-file", str(tmp_path / "mine"))[0] == 0
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
    status, out = run()
    assert (status, json.loads(out)["error"]["code"]) == (3, "key_missing")
    assert not (tmp_path / "o.key").exists()
