"""The images of a deployment: the Observatory's by its Dockerfile, and stand-ins for those that others publish."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .images import BASE_IMAGE
from .needs import find_postgres
from .worker_image import pack_wheels

__all__ = ["DEPLOY", "ROOT", "caddy_image", "observatory_image", "postgres_image"]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples/observatory/deploy"
_SOURCES = ("coworld_core", "coworld_runner", "coworld_client", "coworld_cli", "docs")
_WORLDS = ("learner", "observatory", "paintarena")
_NEEDED = ("observatory[metrics,oidc,postgresql,s3,tracing]", "coworld-runner[kubernetes]", "hatchling")

_ENTRYPOINT = """#!/bin/sh
# As the published image: a database and its owner the first time, and then the server.
set -e
export PGDATA=${PGDATA:-/var/lib/postgresql/data}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    initdb -U "$POSTGRES_USER" -A scram-sha-256 --pwfile=/tmp/password --locale=C -E UTF8 > /dev/null
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single postgres > /dev/null
fi
exec postgres -h "*" -k /tmp
"""
_POSTGRES = """ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY usr /usr
COPY entrypoint /
RUN echo 'postgres:x:999:999::/var/lib/postgresql:/bin/sh' >> /etc/passwd && echo 'postgres:x:999:' >> /etc/group \\
    && mkdir -p -m 0700 /var/lib/postgresql/data && chown -R postgres /var/lib/postgresql
ENV PATH=/usr/lib/postgresql/bin:$PATH LD_LIBRARY_PATH=/usr/local/lib
VOLUME /var/lib/postgresql/data
USER 999:999
ENTRYPOINT ["/entrypoint"]
"""
_CADDY = """ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY caddy /usr/bin/caddy
ENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/config
VOLUME /data
"""


@contextmanager
def observatory_image(name: str, *, tags: Sequence[str] = ()) -> Generator[str]:
    """Build the Observatory's image as its Dockerfile says, but from wheels that are put into the checkout.

    With `tags`, the image has these, too.
    """
    base = f"{name}-base"
    with tempfile.TemporaryDirectory() as directory, ExitStack() as images:
        for made in (base, name, *(f"{name}:{tag}" for tag in tags)):
            images.enter_context(_removed(made))
        context = Path(directory)
        skip = shutil.ignore_patterns("__pycache__", "wheels", "dist", "observatory-data*", "results")
        for source in (*_SOURCES, *(f"examples/{world}" for world in _WORLDS)):
            shutil.copytree(ROOT / source, context / source, symlinks=True, ignore=skip)
        pack_wheels(_NEEDED, context / "examples/observatory/wheels")
        # Published bases have these libraries; greenlet is written in C++
        (context / "base").mkdir()
        for library in ("libstdc++.so.6", "libgcc_s.so.1"):
            [found] = Path("/usr/lib").glob(f"*-linux-gnu/{library}")
            shutil.copy2(found, context / "base")
        (context / "base/Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY *.so.* /usr/lib/\n")
        _build(base, context / "base", "Dockerfile")
        words = ["--build-arg", f"BASE_IMAGE={base}", "--build-arg", "PIP_NO_INDEX=1"]
        _build(name, context, "examples/observatory/Dockerfile", *words)
        for tag in tags:
            subprocess.run(["docker", "tag", name, f"{name}:{tag}"], check=True)
        yield name


@contextmanager
def postgres_image(name: str) -> Generator[str]:
    """An image of this machine's PostgreSQL, with the variables of the published one."""
    programs = find_postgres()
    assert programs is not None, "a test that needs a server has the mark postgresql"
    with tempfile.TemporaryDirectory() as directory:
        context, version = Path(directory), programs.parent.name
        target = context / "usr/lib/postgresql"
        shutil.copytree(programs.parent, context / f"usr/lib/postgresql/{version}", symlinks=True)
        (target / "bin").symlink_to(f"{version}/bin")
        shutil.copytree(f"/usr/share/postgresql/{version}", context / f"usr/share/postgresql/{version}", symlinks=True)
        shutil.copytree("/usr/share/zoneinfo", context / "usr/share/zoneinfo", symlinks=True)
        libraries = context / "usr/local/lib"
        libraries.mkdir(parents=True)
        listed = subprocess.run(["ldd", *programs.iterdir()], capture_output=True, text=True, check=True).stdout
        for name_of, path in set(re.findall(r"^\s+(\S+) => (/\S+)", listed, re.MULTILINE)):
            # Those of the C library belong to the image's own loader
            if not re.match(r"lib(c|m|dl|rt|pthread|resolv)\.so", name_of):
                shutil.copy2(path, libraries / name_of)
        (context / "entrypoint").write_text(_ENTRYPOINT)
        (context / "entrypoint").chmod(0o755)
        (context / "Dockerfile").write_text(_POSTGRES)
        _build(name, context, "Dockerfile")
    with _removed(name):
        yield name


@contextmanager
def caddy_image(name: str) -> Generator[str]:
    """An image of this machine's Caddy, which is a single file."""
    caddy = shutil.which("caddy")
    assert caddy is not None, "a test that needs Caddy looks for it first"
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        shutil.copy2(caddy, context / "caddy")
        (context / "Dockerfile").write_text(_CADDY)
        _build(name, context, "Dockerfile")
    with _removed(name):
        yield name


def _build(name: str, context: Path, dockerfile: str, *arguments: str) -> None:
    words = ["docker", "build", "-q", "-f", dockerfile, "-t", name, "--build-arg", f"BASE_IMAGE={BASE_IMAGE}"]
    done = subprocess.run([*words, *arguments, "."], cwd=context, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _removed(name: str) -> Generator[None]:
    try:
        yield
    finally:
        subprocess.run(["docker", "rmi", "-f", name], check=False, capture_output=True)
