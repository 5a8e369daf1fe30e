"""What is released: metadata, and wheels built as for a release, in environments that have nothing else."""

from __future__ import annotations

import compileall
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import uuid
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support.images import drop_image
from support.worker_image import build_worker_image

from coworld_runner.images.build_context import write_context
from coworld_runner.images.compose import Build

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = ("coworld_core", "coworld_runner", "coworld_client", "coworld_cli")
FOLDERS = {**{name: ROOT / name for name in DISTRIBUTIONS}} | {
    name: ROOT / "examples" / name for name in ("paintarena", "observatory")
}


def project(distribution: str) -> dict[str, Any]:
    return tomllib.loads((FOLDERS[distribution] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_member_of_the_workspace_is_looked_at() -> None:
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]["workspace"]
    assert {ROOT / member for member in workspace["members"]} == set(FOLDERS.values())


@pytest.mark.parametrize("distribution", FOLDERS)
def test_metadata(distribution: str) -> None:
    data = project(distribution)
    folder = FOLDERS[distribution]
    assert data["name"] == distribution.replace("_", "-")
    assert Version(data["version"])
    assert data["requires-python"] == ">=3.11"
    assert (data["license"], data["license-files"]) == ("MIT", ["LICENSE"])
    # A distribution is built from its own folder, so the text is there again
    assert (folder / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")
    assert data["keywords"]
    assert "Typing :: Typed" in data["classifiers"]
    systems = [line for line in data["classifiers"] if line.startswith("Operating System")]
    assert systems == ["Operating System :: MacOS", "Operating System :: POSIX :: Linux"]
    assert (folder / "src" / distribution / "py.typed").exists()


@pytest.mark.parametrize("distribution", [name for name in FOLDERS if name != "paintarena"])
def test_changelog(distribution: str) -> None:
    text = (FOLDERS[distribution] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(project(distribution)['version'])}\b", text, re.MULTILINE)
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_readme(distribution: str) -> None:
    readme = (ROOT / distribution / "README.md").read_text(encoding="utf-8")
    assert readme.splitlines()[2].startswith(f"`pip install {project(distribution)['name']}`")
    # A package index shows the page alone: nothing is beside it
    assert [link for link in re.findall(r"\]\(([^)\s]+)", readme) if not link.startswith(("https://", "#"))] == []


@pytest.mark.parametrize("distribution", FOLDERS)
def test_siblings_may_move_until_something_breaks(distribution: str) -> None:
    for text in project(distribution)["dependencies"]:
        requirement = Requirement(text)
        if (sibling := requirement.name.replace("-", "_")) not in FOLDERS:
            continue
        now = Version(project(sibling)["version"])
        later = (str(now), f"{now.major}.{now.minor}.{now.micro + 1}", f"{now.major}.{now.minor}.99")
        assert list(requirement.specifier.filter(later)) == list(later), text
        # Before 1.0, the middle number says what breaks
        assert not requirement.specifier.contains(f"{now.major}.{now.minor + 1}.0"), text


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def uv(*words: str | Path, cwd: Path) -> str:
    found = shutil.which("uv")
    assert found is not None, "uv is not on PATH; run: pip install uv"
    return run(found, *words, cwd=cwd)


def build(*words: str | Path, cwd: Path, out: Path) -> Path:
    """Build with what this environment has, so that only the packages of the wheels come from an index."""
    uv("build", "-q", "--no-build-isolation", "--python", sys.executable, "-o", out, *words, cwd=cwd)
    return out


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of the files that git knows, as they are now; links as links."""
    place = tmp_path_factory.mktemp("sources")
    # Empty if nothing differs from the commit, and then some versions of git end with status 1
    stash = ("git", "-c", "user.name=-", "-c", "user.email=-", "stash", "create")
    changed = subprocess.run(stash, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    run("git", "archive", "-o", place.with_suffix(".tar"), changed or "HEAD", cwd=ROOT)
    with tarfile.open(place.with_suffix(".tar")) as archive:
        archive.extractall(place, filter="data")
    return place


@pytest.fixture(scope="module")
def wheels(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release uploads: source distributions, and wheels that are built from these."""
    out = build("--all-packages", cwd=sources, out=tmp_path_factory.mktemp("wheels"))
    assert len(list(out.glob("*.whl"))) == len(list(out.glob("*.tar.gz"))) == len(FOLDERS)
    return out


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def wheel_of(distribution: str, wheels: Path) -> Path:
    return next(wheels.glob(f"{distribution}-*.whl"))


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A new environment without packages."""
    uv("venv", "-q", "--python", sys.executable, tmp_path / "environment", cwd=tmp_path)
    return tmp_path / "environment"


def install(environment: Path, what: str, *places: Path, options: tuple[str, ...] = ()) -> str:
    # Nothing of ours comes from a cache, where another checkout's may have the same version
    fresh = [word for name in FOLDERS for word in ("--refresh-package", name)]
    found = [word for place in places for word in ("--find-links", place)]
    words = ("pip", "install", *options, "--python", environment / "bin" / "python", *fresh, *found, what)
    done = subprocess.run(
        [shutil.which("uv") or "uv", *words], cwd=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.timeout(300)
def test_links_that_lead_out_of_a_package_are_files_in_what_is_released(
    wheels: Path, sources: Path, tmp_path: Path
) -> None:
    cli, runner = names(wheel_of("coworld_cli", wheels)), names(wheel_of("coworld_runner", wheels))
    trainable = "coworld_runner/kit/server/templates/trainable"
    links = {path.relative_to(sources).as_posix() for path in sources.rglob("*") if path.is_symlink()}
    # Another one needs its line below
    assert links == {
        "coworld_cli/src/coworld_cli/docs",
        "coworld_cli/src/coworld_cli/sample",
        f"coworld_runner/src/{trainable}",
    }
    assert {f"coworld_cli/docs/{page.name}" for page in (sources / "docs").glob("*.md")} <= cli
    arena = sources / "examples/paintarena"
    sample = {f"coworld_cli/sample/{file.relative_to(arena)}" for file in arena.rglob("*") if file.is_file()}
    assert sample == {name for name in cli if name.startswith("coworld_cli/sample/")}
    assert {name for name in runner if name.startswith(trainable)} == {f"{trainable}/main.py", f"{trainable}/train.py"}
    # As `pip install ./coworld_cli` does it, without a source distribution between
    for name, released in (("coworld_cli", cli), ("coworld_runner", runner)):
        assert names(wheel_of(name, build("--wheel", name, cwd=sources, out=tmp_path))) == released


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.timeout(300)
def test_the_licence_is_in_everything_that_is_released(wheels: Path) -> None:
    for wheel in wheels.glob("*.whl"):
        distribution, version, *_ = wheel.name.split("-")
        assert f"{distribution}-{version}.dist-info/licenses/LICENSE" in names(wheel)
    for file in wheels.glob("*.tar.gz"):
        with tarfile.open(file) as archive:
            assert f"{file.name.removesuffix('.tar.gz')}/LICENSE" in archive.getnames()


@pytest.fixture
async def context(sources: Path, tmp_path: Path) -> Path:
    """Of an archive, what the worker's ignore file leaves: BuildKit obeys it, and Docker's older builder does not."""
    place = tmp_path / "context"
    with (tmp_path / "context.tar").open("w+b") as file:
        what = Build(context=sources, dockerfile="coworld_runner/Dockerfile")
        await anyio.to_thread.run_sync(partial(write_context, what, file))
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            archive.extractall(place, filter="data")
    return place


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.timeout(300)
def test_the_image_of_the_worker_has_what_its_packages_are_built_from(
    context: Path, wheels: Path, tmp_path: Path
) -> None:
    recipe = context / "coworld_runner/Dockerfile"
    copied = re.findall(r"^COPY (\S+) \1$", recipe.read_text("utf-8"), re.MULTILINE)
    for name in copied:
        shutil.copytree(context / name, tmp_path / "src" / name, symlinks=True)
    for name in ("coworld_core", "coworld_runner"):
        out = build("--wheel", name, cwd=tmp_path / "src", out=tmp_path / "out")
        assert names(wheel_of(name, out)) == names(wheel_of(name, wheels))


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.docker
@pytest.mark.timeout(600)
def test_the_image_of_the_worker_is_built_by_the_line_of_its_page(context: Path) -> None:
    image = f"coworld-worker:page-{uuid.uuid4().hex[:8]}"
    look = (
        "from importlib.resources import files\n"
        "found = files('coworld_runner') / 'kit/server/templates/trainable'\n"
        "print(*sorted(file.name for file in found.iterdir() if file.is_file()))"
    )
    try:
        build_worker_image(context, image)
        assert "init-config" in run("docker", "run", "--rm", image, "--help", cwd=context)
        said = run("docker", "run", "--rm", "--entrypoint", "python", image, "-c", look, cwd=context)
        assert said.split() == ["main.py", "train.py"]
    finally:
        drop_image(image)


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.timeout(300)
def test_each_distribution_moves_alone(sources: Path, wheels: Path, environment: Path, tmp_path: Path) -> None:
    for moved in DISTRIBUTIONS:
        now = Version(project(moved)["version"])
        found: list[Path] = []
        for version in (f"{now.major}.{now.minor}.{now.micro + 1}", f"{now.major}.{now.minor + 1}.0"):
            place = tmp_path / moved / version
            shutil.copytree(sources / moved, place)
            settings = place / "pyproject.toml"
            text = settings.read_text("utf-8").replace(f'version = "{now}"', f'version = "{version}"', 1)
            settings.write_text(text, "utf-8")
            found.append(build("--wheel", cwd=place, out=tmp_path / "moved" / moved / version))
        said = install(environment, "coworld-cli", wheels, *found, options=("--dry-run",))
        versions = dict(re.findall(r"\+ (coworld-\w+)==(\S+)", said))
        expected = {name.replace("_", "-"): project(name)["version"] for name in DISTRIBUTIONS}
        # Nothing requires an older command: whoever asks for it gets the newest
        newest = found[moved == "coworld_cli"].name
        assert versions == expected | {moved.replace("_", "-"): newest}


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.timeout(300)
def test_compiled_files_alone_lack_what_runs_in_containers(wheels: Path, tmp_path: Path) -> None:
    for distribution in ("coworld_core", "coworld_runner"):
        with zipfile.ZipFile(wheel_of(distribution, wheels)) as wheel:
            wheel.extractall(tmp_path)

    def ask(code: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    sources = "from coworld_runner.backends.kubernetes._pod_objects import program; print(*program())"
    assert "collector_start.py" in ask(sources).stdout.split()
    assert compileall.compile_dir(tmp_path, quiet=1, legacy=True)
    for path in tmp_path.rglob("*.py"):
        path.unlink()
    # Rather than sending half a program
    assert "lacks the source of backends/collector/__init__.py" in ask(sources).stderr


USES = {
    "coworld_core": "import coworld_core as it; assert it.manifest_schema()['title'] == 'Coworld Manifest'",
    "coworld_runner": (
        "import sys, coworld_runner as it\n"
        "from coworld_runner.certification import *\n"
        "assert render_page(read_certification(sys.argv[1])).startswith('<!doctype html>')"
    ),
    "coworld_client": "import coworld_client as it; it.CoworldClient",
    "coworld_cli": "import coworld_cli as it; it.__version__",
}
"""A use of each distribution, which needs more of it than its first module."""


@pytest.mark.slow
@pytest.mark.git
@pytest.mark.timeout(300)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_wheel_stands_alone(distribution: str, wheels: Path, environment: Path, tmp_path: Path) -> None:
    install(environment, project(distribution)["name"], wheels)
    # From another directory, isolated: nothing of the checkout may be in reach
    code = f"{USES[distribution]}\nimport pathlib; print(pathlib.Path(it.__file__).parent)"
    record = ROOT / "tests/core/formats/0.2.0/certified/certification.json"
    place = Path(run(environment / "bin" / "python", "-I", "-c", code, record, cwd=tmp_path).strip())
    assert place.is_relative_to(environment)
    assert (place / "py.typed").exists()
    if distribution == "coworld_cli":
        first_minutes(environment / "bin" / "coworld", tmp_path / "empty")


def first_minutes(program: Path, place: Path) -> None:
    """What a stranger does in an empty directory: the first line of the README, and the sample changed."""
    place.mkdir()
    coworld = partial(run, program, cwd=place)

    assert "  run      Play episodes of a Coworld" in coworld("--help")
    start_here = (ROOT / "docs/start-here.md").read_text(encoding="utf-8")
    assert coworld("docs", "start-here") == re.sub(r'<picture>.* alt="(.*?)".*', r"*Picture: \1.*", start_here)
    assert all(page.stem in coworld("docs") for page in (ROOT / "docs").glob("*.md"))
    said = coworld("demo")
    page = re.search(r"file://(\S+replay\.html)", said)
    assert page is not None, said
    assert "<canvas" in Path(page[1]).read_text(encoding="utf-8")
    assert "coworld play coworld-demo --human 0" in said
    # It is one's own: what is changed there is what plays
    player = place / "coworld-demo/src/paintarena/players/sweep.py"
    player.write_text(f"import sys\nsys.stderr.write('changed here\\n')\n{player.read_text('utf-8')}", "utf-8")
    coworld("run-episode", "coworld-demo", "--variant", "quick", "-o", "played")
    assert "changed here" in (place / "played/logs/policy_agent_0.log").read_text(encoding="utf-8")
    assert "Wrote again.html" in coworld("replay", "--html", "again.html")
