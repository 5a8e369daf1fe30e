"""A namespace that allows no root, on clusters that do not know of the standards, too."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_runner.backends.kubernetes._cluster import Cluster, ClusterRefused

from .certificates import Authority
from .fake_server import Ask, Say, json_say, serve
from .kube import on_cluster
from .pod_standards import restricted_problems
from .waiting import until

__all__ = ["restricted"]


@asynccontextmanager
async def restricted(namespace: str, directory: Path) -> AsyncGenerator[list[str]]:
    """Have a namespace enforce the restricted standard, and yield the names of the pods that it has refused.

    The label does so on servers from 1.23 on. For older ones, a webhook of ours refuses what breaks the same rules, in
    the same words.
    """
    refused: list[str] = []

    async def review(ask: Ask) -> Say:
        await ask.read()
        request = ask.json["request"]
        pod, answer = request["object"], {"uid": request["uid"], "allowed": True}
        if problems := list(restricted_problems(pod)):
            refused.append(pod["metadata"]["name"])
            words = (
                f'pods "{refused[-1]}" is forbidden: violates PodSecurity "restricted:latest": {", ".join(problems)}'
            )
            answer |= {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": words}}
        return json_say({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    authority = Authority(directory)
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "coworld-test": namespace}
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    async with serve(review, tls=authority.server("127.0.0.1")) as server:
        hook = {
            "name": "restricted.coworld.test",
            "clientConfig": {
                "url": f"{server.url}/",
                "caBundle": base64.b64encode(authority.file.read_bytes()).decode(),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"coworld-test": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
        }

        async def add(cluster: Cluster) -> None:
            await cluster.call("POST", hooks, body={"metadata": {"name": namespace}, "webhooks": [hook]})
            await label(cluster, labels)

        async def remove(cluster: Cluster) -> None:
            await cluster.call("DELETE", f"{hooks}/{namespace}")
            await label(cluster, dict.fromkeys(labels))

        async def label(cluster: Cluster, labels: Mapping[str, str | None]) -> None:
            await cluster.call(
                "PATCH",
                f"/api/v1/namespaces/{namespace}",
                body={"metadata": {"labels": labels}},
                content_type="application/merge-patch+json",
            )

        async def refuses() -> bool:
            pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "probe", "image": "none"}]}}

            async def ask(cluster: Cluster) -> None:
                with contextlib.suppress(ClusterRefused):
                    await cluster.call("POST", cluster.path("pods"), query={"dryRun": "All"}, body=pod)

            await anyio.to_thread.run_sync(partial(on_cluster, ask, namespace=namespace))
            return bool(refused)

        await anyio.to_thread.run_sync(on_cluster, add)
        try:
            # The server learns of a webhook a moment after it was made
            await until(refuses, what="a namespace that refuses root")
            refused.clear()
            yield refused
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(on_cluster, remove)
