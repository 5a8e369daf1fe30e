"""Checks of the backend contract: what a unit shares with the runner and with other units, and what it does not."""

# Checks have no docstrings: their names say what they check

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from coworld_core.errors import TransferError

from ..backend import HttpProbe, Placement, UnitSpec
from ._conformance_arena import HTTP, Arena, Suite, subject_environment, until, with_environment

__all__ = ["SharingChecks"]


class SharingChecks(Suite):
    """Checks of files, secrets, the environment and networks."""

    # ------------------------------------------------------------------ files

    async def test_a_file_is_reported_once_its_writer_has_closed_it(self, arena: Arena) -> None:
        text = "0123456789" * 10
        async with (
            arena.open() as backend,
            backend.units(
                [arena.spec("subject", f"slow:replay:{text}:go", "hang")], publish=arena.publish, start=False
            ) as (unit,),
            unit.written() as names,
        ):
            await unit.start()
            await arena.until_written("subject", "half replay")
            directory = arena.inside("subject")
            # Only half of it is written: files completed meanwhile are reported before it
            for witness in ("w1", "w2", "w3"):
                await until(lambda: (directory / "replay").stat().st_size == len(text) // 2)
                (directory / witness).write_text("complete")
                assert await names.receive() == witness
            (directory / "go").touch()
            while (name := await names.receive()) != "replay":
                assert name == "go"
            assert (directory / "replay").read_text() == text

    async def test_a_file_renamed_into_place_is_reported(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "rename:results.json:{}")], publish=arena.publish, start=False) as (
                unit,
            ),
            unit.written() as names,
        ):
            await unit.start()
            assert "results.json" in [name async for name in names]
            assert (await unit.wait()).ok

    async def test_complete_files_are_reported_first_and_the_stream_ends_with_the_unit(self, arena: Arena) -> None:
        (arena.directory("subject") / "before").write_text("here already")
        spec = arena.spec("subject", "write:a:1", "print:wrote", "wait:go", "write:b:2", "link:c:a", "write:d:4")
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await arena.until_written("subject", "wrote")
            async with unit.written() as names:
                assert {await names.receive(), await names.receive()} == {"a", "before"}
                (arena.inside("subject") / "go").touch()
                rest = [name async for name in names]
            assert {name for name in rest if name not in {"a", "before"}} == {"go", "b", "d"}

    async def test_fetch_copies_regular_files_only(self, arena: Arena) -> None:
        target = arena.scratch.path / "target"
        spec = arena.spec(
            "subject", "write:results.json:{}", "size:big:100000", "link:link:results.json", "pipe:pipe", "print:ready"
        )
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await unit.wait()
            target.write_text("from before")
            assert await unit.fetch("results.json", target) == 2
            assert target.read_text() == "{}"
            assert await unit.fetch("big", target, limit=100_000) == 100_000
            before = target.read_bytes()
            for name in ("link", "pipe", "../subject.log", "/etc/passwd"):
                with pytest.raises(TransferError):
                    await unit.fetch(name, target)
            with pytest.raises(TransferError):
                await unit.fetch("big", target, limit=99_999)
            with pytest.raises(FileNotFoundError):
                await unit.fetch("none", target)
            assert target.read_bytes() == before

    async def test_the_size_of_a_file_is_what_it_is_just_now(self, arena: Arena) -> None:
        text = "0123456789" * 10
        specs = [
            arena.spec("subject", f"slow:replay:{text}:go", "wait:end"),
            arena.spec("bare", "hang", directory=None),
        ]
        async with (
            arena.open() as backend,
            backend.units(specs, publish=arena.publish) as (unit, bare),
        ):
            await arena.until_written("subject", "half replay")
            assert await unit.size("replay") == len(text) // 2
            assert await unit.size("none") is None
            assert await bare.size("replay") is None
            directory = arena.inside("subject")
            (directory / "go").touch()
            await arena.until_written("subject", "whole replay")
            assert await unit.size("replay") == len(text)
            (directory / "end").touch()
            assert (await unit.wait()).ok
            assert await unit.size("replay") == len(text)

    async def test_a_unit_finds_what_was_put_into_its_directory(self, arena: Arena) -> None:
        (arena.directory("subject") / "input").write_text("put there")

        def environment(placement: Placement) -> Mapping[str, str]:
            assert placement.uri("a b").startswith("file:///")
            return {**subject_environment(placement), "INPUT": f"{placement.directory}/input"}

        async with arena.open() as backend:
            assert (await arena.run(backend, arena.spec("subject", "read:$INPUT", environment=environment))).ok
        assert ": put there" in arena.text("subject")

    async def test_inputs_are_there_before_it_starts_apart_from_what_it_writes(self, arena: Arena) -> None:
        steps = ("read:$PLAIN", "read:$DEEP", "read:$LATE", "write:own:1")
        async with (
            arena.open() as backend,
            backend.units([_with_inputs(arena, *steps)], publish=arena.publish, start=False) as (unit,),
            unit.written() as names,
        ):
            await unit.start()
            assert {name async for name in names} == {"own"}
            assert (await unit.wait()).ok
            with pytest.raises(FileNotFoundError):
                await unit.fetch("plain", arena.scratch.path / "target")
        said = arena.text("subject")
        assert "/plain: given" in said
        assert "/deep/a b: given too" in said
        assert "/late: for " in said

    async def test_inputs_cannot_be_written(self, arena: Arena) -> None:
        self.needs(self.make_backend().capabilities.file_isolation, "file isolation")
        spec = _with_inputs(arena, "touch:$PLAIN", "touch:$DEEP", "touch:$NEW")
        async with arena.open() as backend:
            assert (await arena.run(backend, spec)).ok
        said = arena.text("subject")
        assert said.count("cannot write") == 3, said
        assert spec.inputs is not None
        assert (spec.inputs / "plain").read_text() == "given"
        assert not (spec.inputs / "new").exists()

    async def test_a_unit_sees_no_file_but_its_own(self, arena: Arena) -> None:
        self.needs(self.make_backend().capabilities.file_isolation, "file isolation")
        secret = arena.directory("other") / "tokens"
        secret.write_text("secret")
        async with arena.open() as backend:
            await arena.run(backend, arena.spec("subject", f"read:{secret}"))
        assert f"cannot read {secret}" in arena.text("subject")

    # ------------------------------------------------------------------ secrets and environment

    async def test_secrets_are_in_the_environment_and_nowhere_else(self, arena: Arena) -> None:
        secret = secrets.token_hex(16)
        spec = arena.spec("subject", "env", "arguments", "hang", secret_env={"TOKEN": secret})
        err = arena.scratch.path / "subject.err"
        async with (
            arena.open() as backend,
            backend.units([dataclasses.replace(spec, stderr=err)], publish=arena.publish) as (unit,),
        ):
            await until(lambda: arena.text("subject").count("\n") == 2)
            environment, arguments = arena.text("subject").splitlines()
            assert json.loads(environment)["TOKEN"] == secret
            assert secret not in arguments
            found = await backend.find(arena.run_id)
            for what in (spec, unit, unit.id, found, backend, arena.events):
                assert secret not in repr(what)
            lines = await anyio.to_thread.run_sync(_command_lines)
            assert not any(secret in line for line in lines)

    async def test_a_unit_gets_the_environment_of_its_spec_and_none_of_the_callers(self, arena: Arena) -> None:
        canary = f"CANARY_{secrets.token_hex(4).upper()}"
        os.environ[canary] = "the caller's own"
        try:
            async with arena.open() as backend:
                await arena.run(
                    backend, arena.spec("subject", "env", environment=with_environment({"MINE": "a b\n'\"$é"}))
                )
        finally:
            del os.environ[canary]
        environment = json.loads(arena.text("subject"))
        assert environment["MINE"] == "a b\n'\"$é"
        assert canary not in environment

    # ------------------------------------------------------------------ networks

    async def test_clients_reach_their_game_and_nothing_else(self, arena: Arena) -> None:
        self.needs(self.make_backend().capabilities.network_isolation, "network isolation")
        game_spec = arena.spec("game", "serve:200", "hang", ports=HTTP, clients=("one", "two"), network="game-only")
        isolated: dict[str, Any] = {"connects_to": "game", "network": "game-only"}
        async with arena.open() as backend, _tcp_server() as host_port:
            async with backend.units([game_spec], publish=arena.publish) as (game,):
                await game.wait_ready(HttpProbe())
                there = game.endpoint().there
                one_spec = arena.spec("one", "addresses", "serve:200", "print:up", "hang", **isolated)
                one_spec = dataclasses.replace(
                    one_spec,
                    environment=with_environment({"SUBJECT_PORT": "8081", "SUBJECT_HOST": "0.0.0.0"}),  # noqa: S104
                )
                async with backend.units([one_spec], publish=arena.publish):
                    await arena.until_written("one", "up")
                    others = [f"{address}:8081" for address in arena.text("one").split("\n")[0].split()[1:]]
                    assert others, "the other client has no address, so nothing would be checked"
                    hosts = [f"{address}:{host_port}" for address in _host_addresses()]
                    steps = [f"connect:{address}" for address in (there, *others, *hosts)]
                    assert (await arena.run(backend, arena.spec("two", *steps, **isolated))).ok
                    nowhere = arena.spec("nowhere", *steps, network="none")
                    assert (await arena.run(backend, nowhere)).ok
            await arena.nothing_left(backend)
        said = arena.text("two")
        assert f"connected to {there}" in said
        assert said.count("connected to") == 1, said
        assert "connected to" not in arena.text("nowhere")


def _with_inputs(arena: Arena, *steps: str) -> UnitSpec:
    """A subject that is given input files, and their paths in its environment."""
    inputs = arena.directory("given")
    (inputs / "plain").write_text("given")
    (inputs / "deep").mkdir()
    (inputs / "deep" / "a b").write_text("given too")

    def environment(placement: Placement) -> Mapping[str, str]:
        assert placement.input_uri("deep/a b") == f"file://{placement.inputs}/deep/a%20b"
        (inputs / "late").write_text(f"for {placement.inputs}")
        places = {"PLAIN": "plain", "DEEP": "deep/a b", "LATE": "late", "NEW": "new"}
        return {
            **subject_environment(placement),
            **{variable: f"{placement.inputs}/{name}" for variable, name in places.items()},
        }

    return arena.spec("subject", *steps, inputs=inputs, environment=environment)


def _command_lines() -> list[str]:
    import psutil

    lines: list[str] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def _host_addresses() -> list[str]:
    import psutil

    return [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]


@asynccontextmanager
async def _tcp_server() -> AsyncGenerator[int, None]:
    """Accept connections on a port on all addresses of this machine; yields the port."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        await stream.aclose()

    async with (
        await anyio.create_tcp_listener(local_host="0.0.0.0", local_port=0) as listener,  # noqa: S104
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        yield int(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610 - no Django here
        tasks.cancel_scope.cancel()
