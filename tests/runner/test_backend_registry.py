"""Backends that are installed: found by name, made, and told apart from those that are of no use."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from support.plugin import MOON, install

from coworld_core.errors import BackendUnavailable, CoworldError, UsageError
from coworld_runner import BackendOptions, make_backend
from coworld_runner.backends import DockerBackend, KubernetesBackend, ProcessBackend
from coworld_runner.backends.registry import ClusterOptions, backend_names, find_backend
from coworld_runner.doctor import check_machine, leftovers
from coworld_runner.testing import private_scratch

OURS = ("docker", "kubernetes", "process")

WRONG = """
from coworld_core.errors import BackendUnavailable
from coworld_runner.backend import Backend

class Half(Backend):
    name = "half"

def half(options): return Half()
def text(options): return "a backend"
def fails(options): return options.moons
def leaves(options): raise SystemExit(3)
def refuses(options): raise BackendUnavailable("No moon tonight.", code="new_moon")

class Sick:
    name = "sick"
"""

SICK = """
from coworld_runner.backends.process.backend import ProcessBackend

class Sick(ProcessBackend):
    name = "sick"
    async def check(self): raise KeyError("thermometer")
    async def find(self, run_id=None): raise KeyError("thermometer")

def make(options): return Sick()
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A directory for distributions; what is imported from there is forgotten."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield tmp_path / "site"
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_builtin_backends_are_found_by_entry_points() -> None:
    assert backend_names() == OURS
    kinds = {"process": ProcessBackend, "docker": DockerBackend, "kubernetes": KubernetesBackend}
    assert {name: type(make_backend(name)) for name in backend_names()} == kinds


def test_installed_and_removed_backends_are_noticed(site: Path) -> None:
    site.mkdir()
    assert backend_names() == OURS
    install(site, backends={"moon": "moon:make_backend"}, modules={"moon": MOON})
    assert "moon" in backend_names()
    for info in site.glob("*.dist-info"):
        shutil.rmtree(info)
    assert backend_names() == OURS


async def test_installed_backend_is_made_from_options(site: Path, tmp_path: Path) -> None:
    install(site, backends={"moon": "moon:make_backend"}, modules={"moon": MOON})
    assert backend_names() == ("docker", "kubernetes", "moon", "process")
    make = find_backend("moon")
    assert "moon" not in sys.modules
    backend = make(BackendOptions(contexts={"image": tmp_path}, cluster=ClusterOptions(namespace="n")))
    assert backend.name == "moon"
    assert (await backend.ensure_image("image")).context == tmp_path


def test_unknown_backend_lists_and_suggests_names() -> None:
    with pytest.raises(UsageError, match="There is no backend 'dokcer'") as caught:
        make_backend("dokcer")
    assert caught.value.code == "unknown_backend"
    assert caught.value.hint == "Did you mean 'docker'? There are docker, kubernetes and process."
    with pytest.raises(UsageError) as caught:
        make_backend("moon")
    assert caught.value.hint == "There are docker, kubernetes and process."


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nowhere:make", "No module named 'nowhere'"),
        ("wrong:none", "no attribute 'none'"),
        ("wrong:half", "abstract class"),
        ("wrong:text", "its factory returned a str"),
        ("wrong:fails", "no attribute 'moons'"),
        ("wrong:leaves", "SystemExit: 3"),
        ("wrong:Sick", "Sick() takes no arguments"),
        ("not a module!", "it cannot be created"),
    ],
)
def test_broken_backend_names_its_distribution(site: Path, value: str, why: str) -> None:
    install(site, backends={"wrong": value}, modules={"wrong": WRONG})
    with pytest.raises(BackendUnavailable) as caught:
        make_backend("wrong")
    assert caught.value.code == "backend_broken"
    assert why in caught.value.message
    assert "'wrong' of coworld-moon" in caught.value.message
    assert f"coworld-moon; its entry point is wrong = {value!r}" in (caught.value.hint or "")
    # and the others work
    assert make_backend("process").name == "process"


def test_error_raised_by_a_backend_is_passed_on(site: Path) -> None:
    install(site, backends={"wrong": "wrong:refuses"}, modules={"wrong": WRONG})
    with pytest.raises(CoworldError, match="No moon tonight") as caught:
        make_backend("wrong")
    assert caught.value.code == "new_moon"


def test_ambiguous_and_reserved_backend_names_are_refused(site: Path) -> None:
    install(site, distribution="one", backends={"moon": "a:b", "auto": "a:b"}, modules={})
    install(site, distribution="other", backends={"moon": "a:b", "process": "a:b"}, modules={})
    assert "auto" not in backend_names()
    with pytest.raises(UsageError, match="it is in one and other") as caught:
        make_backend("moon")
    assert caught.value.code == "ambiguous_backend"
    with pytest.raises(UsageError, match="it is in coworld-runner and other"):
        make_backend("process")


async def test_doctor_and_clean_survive_broken_backends(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    install(
        site,
        backends={"moon": "moon:make_backend", "sick": "sick:make", "wrong": "wrong:text"},
        modules={"moon": MOON, "sick": SICK, "wrong": WRONG},
    )
    with private_scratch(tmp_path):
        machine = await check_machine()
        assert machine.backends == ("moon", "process")
        checks = {check.name: check for check in machine.checks}
        assert {checks[name].status for name in ("docker", "sick", "wrong")} == {"warn"}
        assert "KeyError: 'thermometer'" in checks["sick"].message
        assert "coworld-moon" in (checks["wrong"].hint or "")
        swept = await leftovers()
    assert sorted(text.partition(":")[0] for text in swept.unavailable) == ["docker", "sick", "wrong"]
    with pytest.raises(UsageError):
        await leftovers(backends=["mooon"])
