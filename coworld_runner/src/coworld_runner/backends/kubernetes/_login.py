"""Signs in to a cluster as ``kubectl`` does, with ``kubernetes_asyncio``, which is imported only then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from coworld_core.errors import BackendUnavailable
from coworld_core.hints import Hint

__all__ = ["Login", "import_library", "sign_in"]

_INSTALL = "Install it with: pip install 'coworld-runner[kubernetes]'"
_IN_CLUSTER_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, kw_only=True)
class Login:
    """A cluster, and a client with credentials for it."""

    server: str
    context: str
    namespace: str
    client: Any
    """``kubernetes_asyncio``'s ``ApiClient``, which renews tokens; the caller closes it."""


async def sign_in(context: str | None, namespace: str | None, kubeconfig: Path | None) -> Login:
    """Find the cluster and the credentials for it, without contacting its API server.

    Raises:
        BackendUnavailable: The package is not installed, or there is no kubeconfig, context or credential to use.
    """
    # before the slow import, so that a missing kubeconfig is reported at once
    paths = await anyio.to_thread.run_sync(_kubeconfigs, kubeconfig)
    await anyio.to_thread.run_sync(import_library)
    import aiohttp
    from kubernetes_asyncio.client import ApiClient, Configuration

    configuration: Any = Configuration()
    if paths:
        name, own = await _load(configuration, paths, context)
    else:
        _load_in_cluster(configuration)
        name, own = "in-cluster", await anyio.to_thread.run_sync(_read_namespace)
    # no limit: each followed log and each watch holds a connection
    configuration.connection_pool_maxsize = 0
    # certificates of clusters' own authorities often fail the strict checks of Python 3.13
    configuration.disable_strict_ssl_verification = True
    try:
        client: Any = ApiClient(configuration)
    except (OSError, ValueError) as error:
        raise BackendUnavailable(
            f"The certificates of the kubeconfig cannot be used: {error}.",
            code="kubeconfig_invalid",
            hint="See whether kubectl can: kubectl version.",
        ) from error
    client.user_agent = "coworld"
    # replaces the library's session, which reads passwords from ~/.netrc at each request and sends them
    theirs = client.rest_client.pool_manager
    client.rest_client.pool_manager = aiohttp.ClientSession(connector=theirs.connector, read_bufsize=1 << 21)
    theirs.detach()
    return Login(server=str(configuration.host), context=name, namespace=namespace or own or "default", client=client)


def import_library() -> None:
    """Import ``kubernetes_asyncio``, which takes a second or two.

    Raises:
        BackendUnavailable: It is not installed.
    """
    try:
        import kubernetes_asyncio.config  # noqa: F401 # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise BackendUnavailable(
            f"The kubernetes backend needs kubernetes_asyncio, which is not installed ({error}).",
            code="kubernetes_not_installed",
            hint=_INSTALL,
        ) from error


def _kubeconfigs(given: Path | None) -> str:
    """The paths of the kubeconfigs to read, joined as in ``KUBECONFIG``; empty inside a cluster without one."""
    if given is not None:
        if not given.is_file():
            raise BackendUnavailable(
                f"There is no kubeconfig {given}.",
                code="kubeconfig_missing",
                hint=Hint("name_kubeconfig", "Pass the file that your cluster gave you as kubeconfig."),
                context={"path": str(given)},
            )
        return str(given)
    named = os.environ.get("KUBECONFIG")
    if named:
        present = [path for path in named.split(os.pathsep) if path and Path(path).is_file()]
        if not present:
            raise BackendUnavailable(
                f"KUBECONFIG names {named}, and there is no such file.",
                code="kubeconfig_missing",
                hint=Hint("correct_kubeconfig", "Correct the variable, or pass the file as kubeconfig."),
            )
        return os.pathsep.join(present)
    usual = Path.home() / ".kube" / "config"
    if usual.is_file():
        return str(usual)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return ""
    raise BackendUnavailable(
        f"There is no kubeconfig: KUBECONFIG is not set, and there is no {usual}.",
        code="kubeconfig_missing",
        hint=Hint(
            "name_kubeconfig_or_backend",
            "Pass the file that your cluster gave you as kubeconfig, or set KUBECONFIG. "
            'Or pass backend="docker" or "process", which need no cluster.',
        ),
    )


async def _load(configuration: Any, paths: str, context: str | None) -> tuple[str, str]:
    """Read kubeconfigs into a configuration; returns the context's name and namespace."""
    from kubernetes_asyncio.config import ConfigException, kube_config

    try:
        contexts, active = await anyio.to_thread.run_sync(kube_config.list_kube_config_contexts, paths)
        names = [str(entry["name"]) for entry in contexts]
        if context is not None and context not in names:
            raise BackendUnavailable(
                f"There is no context {context!r} in {paths}.",
                code="context_missing",
                hint=f"There is: {', '.join(names) or 'none'}.",
                context={"context": context},
            )
        chosen: Mapping[str, Any] = next((entry for entry in contexts if entry["name"] == context), active) or {}
        load: Any = kube_config.load_kube_config  # pyright: ignore[reportUnknownVariableType]
        await load(config_file=paths, context=context, client_configuration=configuration, persist_config=False)
    except BackendUnavailable:
        raise
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendUnavailable(
            f"The kubeconfig {paths} cannot be used: {error}.",
            code="kubeconfig_invalid",
            hint="See whether kubectl can: kubectl config view.",
        ) from error
    except Exception as error:
        # a YAML error, or an error from a sign-in program
        raise BackendUnavailable(
            f"Signing in with the kubeconfig {paths} failed: {error}.",
            code="kubeconfig_invalid",
            hint="See whether kubectl can: kubectl version.",
        ) from error
    inner: Mapping[str, Any] = chosen.get("context") or {}
    return str(chosen.get("name") or ""), str(inner.get("namespace") or "")


def _load_in_cluster(configuration: Any) -> None:
    from kubernetes_asyncio.config import ConfigException, incluster_config

    try:
        load: Any = incluster_config.load_incluster_config  # pyright: ignore[reportUnknownVariableType]
        load(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise BackendUnavailable(
            f"This pod's service account cannot be used: {error}.",
            code="kubeconfig_missing",
            hint=Hint("mount_token", "Mount its token (automountServiceAccountToken), or pass a file as kubeconfig."),
        ) from error


def _read_namespace() -> str:
    try:
        return _IN_CLUSTER_NAMESPACE.read_text("ascii").strip()
    except OSError:
        return ""
