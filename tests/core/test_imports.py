"""What using the package loads: nothing that could open a connection, and nothing before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

NETWORK = {"anyio", "asyncio", "docker", "http.client", "httpx", "httpx2", "ssl", "websockets", "yaml"}


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_import_alone_is_empty() -> None:
    loaded = modules_after("import coworld_core")
    assert not {name for name in loaded if name.startswith(("pydantic", "jsonschema", "packaging"))}


def test_every_name_without_a_network_library() -> None:
    loaded = modules_after("import coworld_core\nfor name in coworld_core.__all__: getattr(coworld_core, name)")
    assert not loaded & NETWORK
    assert "coworld_core.manifest.manifest_file" in loaded
    # A manifest's models are used in many places where no schema is checked.
    assert not {name for name in loaded if name.startswith("jsonschema")}


def test_no_model_is_built_before_it_is_needed() -> None:
    loaded = modules_after("import coworld_core.manifest.manifest_file, coworld_core.episode.record")
    # Pydantic loads it with the first one, and with it a fifth of all modules.
    assert "importlib.metadata" not in loaded


def test_the_check_of_reports_loads_its_parsers_when_there_is_a_page() -> None:
    loaded = modules_after("import coworld_core.roles.report_check")
    assert not loaded & (NETWORK | {"justhtml", "tinycss2", "markdown_it", "pyarrow"})


def test_unknown_names() -> None:
    code = (
        "import coworld_core\ntry: coworld_core.nothing\nexcept AttributeError as error: assert 'nothing' in str(error)"
    )
    assert "coworld_core" in modules_after(code)
