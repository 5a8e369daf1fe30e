"""The four distributions: their metadata, and that each works from its own wheel alone."""

from __future__ import annotations

import compileall
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = ("coworld_core", "coworld_runner", "coworld_client", "coworld_cli")


def project(distribution: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_metadata(distribution: str) -> None:
    data = project(distribution)
    assert data["name"] == distribution.replace("_", "-")
    assert Version(data["version"])
    assert data["requires-python"] == ">=3.11"
    folder = ROOT / distribution
    assert (folder / "src" / distribution / "py.typed").exists()
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert readme.splitlines()[2].startswith(f"`pip install {data['name']}`")
    # A package index shows the page alone: nothing is beside it
    assert [link for link in re.findall(r"\]\(([^)\s]+)", readme) if not link.startswith(("https://", "#"))] == []
    changelog = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(data['version'])}\b", changelog, re.MULTILINE)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_sibling_ranges_are_bounded_and_current(distribution: str) -> None:
    for text in project(distribution)["dependencies"]:
        requirement = Requirement(text)
        if not requirement.name.startswith("coworld-"):
            continue
        operators = {specifier.operator for specifier in requirement.specifier}
        assert {">=", "<"} <= operators, f"{text} has no lower or no upper bound"
        sibling = project(requirement.name.replace("-", "_"))["version"]
        assert requirement.specifier.contains(sibling, prereleases=True), f"{text} leaves out the sibling's {sibling}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheels")
    for distribution in DISTRIBUTIONS:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
            cwd=ROOT / distribution,
            check=True,
            capture_output=True,
            timeout=120,
        )
    assert len(list(out.glob("*.whl"))) == len(DISTRIBUTIONS)
    return out


def test_compiled_files_alone_lack_what_runs_in_containers(wheels: Path, tmp_path: Path) -> None:
    for distribution in ("coworld_core", "coworld_runner"):
        with zipfile.ZipFile(next(wheels.glob(f"{distribution}-*.whl"))) as wheel:
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


def first_minutes(program: Path, place: Path) -> None:
    """What a stranger does in an empty directory: the sample world, changed, played, and looked at again."""
    place.mkdir()

    def coworld(*words: str) -> str:
        done = subprocess.run([program, *words], cwd=place, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = coworld("demo", "-o", "my-arena")
    page = re.search(r"file://(\S+replay\.html)", said)
    assert page is not None, said
    assert "<canvas" in Path(page[1]).read_text(encoding="utf-8")
    assert "coworld play my-arena --human 0" in said
    shipped = {path.relative_to(place / "my-arena") for path in (place / "my-arena").rglob("*") if path.is_file()}
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT / "examples/paintarena", capture_output=True, check=True, text=True
    )
    assert {Path(name) for name in listed.stdout.split()} == {
        path for path in shipped if path.parts[0] != "results" and "__pycache__" not in path.parts
    }
    # It is one's own: what is changed there is what plays
    player = place / "my-arena/src/paintarena/players/sweep.py"
    player.write_text(f"import sys\nsys.stderr.write('changed here\\n')\n{player.read_text('utf-8')}", "utf-8")
    coworld("run-episode", "my-arena", "--variant", "quick", "-o", "played")
    assert "changed here" in (place / "played/logs/policy_agent_0.log").read_text(encoding="utf-8")
    assert "Wrote again.html" in coworld("replay", "--html", "again.html")


def read_pages(program: Path, elsewhere: Path) -> None:
    """Every page of the documentation, printed by the installed command outside the checkout."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        done = subprocess.run(
            [program, "docs", page.stem], cwd=elsewhere, capture_output=True, text=True, check=False, timeout=60
        )
        text = re.sub(r'<picture>.* alt="(.*?)".*', r"*Picture: \1.*", page.read_text(encoding="utf-8"))
        assert (done.returncode, done.stdout) == (0, text), page.stem


def test_the_source_distribution_makes_the_same_wheel(wheels: Path, tmp_path: Path) -> None:
    """The documentation and the sample world are links in a checkout, and files in what is distributed."""

    def build(target: str, source: Path, out: Path) -> Path:
        words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
        subprocess.run(words, cwd=source, check=True, capture_output=True, timeout=120)
        return next(out.iterdir())

    with tarfile.open(build("sdist", ROOT / "coworld_cli", tmp_path / "sdist")) as sources:
        sources.extractall(tmp_path, filter="data")
    again = build("wheel", next(tmp_path.glob("coworld_cli-*")), tmp_path / "again")
    names = [zipfile.ZipFile(wheel).namelist() for wheel in (again, next(wheels.glob("coworld_cli-*.whl")))]
    assert sorted(names[0]) == sorted(names[1])
    assert {f"coworld_cli/docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(names[0])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "distribution",
    [pytest.param(name, marks=[pytest.mark.git] if name == "coworld_cli" else []) for name in DISTRIBUTIONS],
)
def test_wheel_stands_alone(distribution: str, wheels: Path, tmp_path: Path) -> None:
    uv = shutil.which("uv")
    assert uv is not None, "uv is not on PATH; run: pip install uv"
    environment = tmp_path / "environment"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    wheel = next(wheels.glob(f"{distribution}-*.whl"))
    # Nothing of ours comes from a cache, where another checkout's may have the same version
    fresh = [word for name in DISTRIBUTIONS for word in ("--refresh-package", name)]
    install = subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(python), *fresh, "--find-links", str(wheels), str(wheel)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert install.returncode == 0, install.stderr
    # From another directory, isolated: nothing of the checkout may be in reach
    done = subprocess.run(
        [
            str(python),
            "-I",
            "-c",
            f"import {distribution} as it, pathlib; print(pathlib.Path(it.__file__).parent)",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    place = Path(done.stdout.strip())
    assert place.is_relative_to(environment)
    assert (place / "py.typed").exists()
    if distribution == "coworld_cli":
        helped = subprocess.run(
            [str(environment / "bin" / "coworld"), "--help"], capture_output=True, text=True, check=False, timeout=60
        )
        assert helped.returncode == 0, helped.stderr
        assert "  run      Play episodes of a Coworld" in helped.stdout
        read_pages(environment / "bin" / "coworld", tmp_path)
        first_minutes(environment / "bin" / "coworld", tmp_path / "empty")
    if distribution == "coworld_runner":
        code = (
            "import sys\n"
            "from coworld_runner.certification import *\n"
            "print(render_page(read_certification(sys.argv[1])))"
        )
        record = ROOT / "tests/core/formats/0.2.0/certified/certification.json"
        page = subprocess.run(
            [str(python), "-I", "-c", code, str(record)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert page.stdout.startswith("<!doctype html>"), page.stderr
    if distribution == "coworld_core":
        shipped = subprocess.run(
            [str(python), "-I", "-c", "import coworld_core; print(coworld_core.manifest_schema()['title'])"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert shipped.stdout.strip() == "Coworld Manifest", shipped.stderr
