"""Images and programs for another machine are refused before they start; what only has the right name is told."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from support.arena import Arena
from support.docker_subject import engine_call
from support.images import BASE_IMAGE, docker_client, drop_image
from support.registry import image_archive

from coworld_core.docker_address import resolve_address
from coworld_core.errors import ImageError
from coworld_core.images import machine_of
from coworld_core.issues import Report
from coworld_runner.backends.docker._emulation import Emulation, ending_program
from coworld_runner.backends.docker._engine import Engine
from coworld_runner.package.resolver import Package

pytestmark = pytest.mark.slow


@pytest.fixture
async def foreign(arena: Arena) -> AsyncGenerator[tuple[str, str, str]]:
    """An image for a machine that the engine does not emulate; its platform, and the engine's."""
    name = f"coworld-test-foreign:{arena.mark}"
    async with Engine.connect(resolve_address()) as engine:
        processor = next(each for each in ("arm64", "s390x") if f"linux/{each}" != engine.platform)
        if await Emulation(engine).try_out(f"linux/{processor}", image=arena.image):
            pytest.skip(f"this engine emulates {processor}")
        async with engine.stream("POST", "/images/load", content=image_archive(name, processor)) as answer:
            assert [data async for data in answer]
        yield name, f"linux/{processor}", engine.platform
    drop_image(name)


@pytest.mark.docker
async def test_a_program_that_ends_is_one_for_each_machine() -> None:
    for processor in ("amd64", "386", "arm64", "arm", "riscv64", "ppc64le", "s390x"):
        content = ending_program(processor)
        assert content is not None
        assert machine_of(content) == f"linux/{processor}"
    async with Engine.connect(resolve_address()) as engine:
        assert await Emulation(engine).try_out(engine.platform, image=BASE_IMAGE)
        left = await engine_call("GET", "/containers/json", query={"all": True, "filters": {"name": ["emulation"]}})
        assert left == []


@pytest.mark.docker
@pytest.mark.parametrize("backend_name", ["docker"])
@pytest.mark.parametrize(("whose", "code"), [("player", "player_other_platform"), ("game", "image_wrong_platform")])
async def test_an_image_for_another_machine_is_refused(
    whose: str, code: str, arena: Arena, foreign: tuple[str, str, str]
) -> None:
    image, needs, where = foreign
    plan = arena.plan()
    if whose == "player":
        runnable = plan.seats[1].runnable
        assert runnable is not None
        seat = replace(plan.seats[1], runnable=runnable.model_copy(update={"image": image}))
        plan = replace(plan, seats=(plan.seats[0], seat))
    else:
        arena.image = image
        plan = arena.plan()
    with pytest.raises(ImageError, match=f"is for {needs}, and it would run on {where}") as refused:
        await arena.play(plan)
    assert refused.value.code == code


@pytest.mark.docker
@pytest.mark.parametrize("backend_name", ["docker"])
async def test_a_program_for_another_machine_in_a_right_image_is_refused(
    arena: Arena, foreign: tuple[str, str, str]
) -> None:
    _, needs, where = foreign
    content = ending_program(needs.partition("/")[2])
    assert content is not None
    name, packed = f"coworld-test-wrong:{arena.mark}", io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("bot")
        entry.mode, entry.size = 0o755, len(content)
        archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("usr/bin/linked")
        link.type, link.linkname = tarfile.SYMTYPE, "../../bot"
        archive.addfile(link)
    client = docker_client()
    made = client.containers.create(arena.image)
    made.put_archive("/", packed.getvalue())
    client.api.commit(made.id, *name.split(":"))
    made.remove()
    client.close()
    right, arena.image = arena.image, name
    try:
        found = await arena.play(arena.plan("well", ["linked"], ["/bot"]))
    finally:
        arena.image = right
        drop_image(name)
    faults = found.record.faults
    assert {(fault.party, fault.error_type) for fault in faults} == {("player", "player_never_started")}
    assert all(f"it is a program for {needs}, and it would run on {where}" in fault.message for fault in faults)


async def test_what_a_kernel_says_of_it_later_is_explained(arena: Arena) -> None:
    """On a cluster nothing says for which machine an image is."""
    says = "import sys; sys.exit('exec /usr/bin/bot: exec format error')"
    found = await arena.play(arena.plan("well", ["python3", "-c", says], "well"))
    (fault,) = found.record.faults
    assert "is for another machine" in str(fault.hint)


@pytest.mark.docker
@pytest.mark.parametrize("backend_name", ["docker"])
async def test_what_this_machine_has_under_a_name_from_elsewhere_is_told(arena: Arena) -> None:
    package = Package(manifest=arena.plan().manifest, report=Report(source=""), fetched=True)
    assert package.unpinned == {arena.image}
    found = await arena.play(replace(arena.plan(), unpinned=package.unpinned))
    (warning,) = found.record.warnings
    digest = found.record.game.image.digest
    assert digest.startswith("sha256:")
    game = package.manifest.game
    assert warning.startswith(f"{game.name} {game.version} comes from elsewhere and names its image {arena.image}")
    assert digest[:19] in warning
