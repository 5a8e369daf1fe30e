"""The commands and a cluster: which one, and what becomes of one that cannot be used. No cluster is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_kit import coworld, write_world

pytestmark = pytest.mark.slow

NO_CLUSTER: dict[str, str | None] = {"KUBECONFIG": "/nowhere/kubeconfig", "COWORLD_NAMESPACE": None}


@pytest.mark.parametrize("backend", [[], ["--backend", "process"]])
@pytest.mark.parametrize("option", ["--context", "--pull-secret", "--pods"])
def test_options_of_a_cluster_go_with_one(tmp_path: Path, backend: list[str], option: str) -> None:
    world, out = write_world(tmp_path / "world"), tmp_path / "out"
    done = coworld("run-episode", world, *backend, option, "there", "-o", out)
    assert done.status == 2
    assert f"{option} goes with --backend kubernetes." in done.stderr
    assert not out.exists()


def test_pods_file_is_refused_before_a_cluster_is_looked_for(tmp_path: Path) -> None:
    world, pods = write_world(tmp_path / "world"), tmp_path / "pods.yaml"
    pods.write_text("player: {spec: {volumes: [{name: v, hostPath: {path: /}}]}}\n")
    command = ("run-episode", world, "--backend", "kubernetes", "-o", tmp_path / "out", "--pods", pods)
    done = coworld(*command, "--json", env=NO_CLUSTER)
    assert (done.status, json.loads(done.stdout)["error"]["code"]) == (1, "pods_invalid")
    done = coworld(*command, env=NO_CLUSTER)
    assert "/player/spec/volumes/0/hostPath" in done.stderr
    assert "--allow-privileged" in done.stderr
    done = coworld(*command, "--allow-privileged", "--json", env=NO_CLUSTER)
    assert json.loads(done.stdout)["error"]["code"] == "kubeconfig_missing"


def test_no_kubeconfig_is_the_environments_fault(tmp_path: Path) -> None:
    world, out = write_world(tmp_path / "world"), tmp_path / "out"
    done = coworld("run-episode", world, "--backend", "kubernetes", "-o", out, "--json", env=NO_CLUSTER)
    assert done.status == 3
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "kubeconfig_missing"
    assert "/nowhere/kubeconfig" in error["message"]
    assert error["hint"]
    assert not out.exists()


def test_doctor_and_clean_report_a_missing_cluster(tmp_path: Path) -> None:
    looked = coworld("doctor", "--backend", "kubernetes", "--kubeconfig", tmp_path / "none", "--json", env=NO_CLUSTER)
    assert looked.status == 3
    (check,) = [entry for entry in json.loads(looked.stdout)["checks"] if entry["name"].startswith("kubernetes")]
    assert check["status"] == "fail"
    assert str(tmp_path / "none") in check["message"]
    cleaned = coworld("clean", "--backend", "kubernetes", "--json", env=NO_CLUSTER)
    assert cleaned.status == 3
    (unavailable,) = json.loads(cleaned.stdout)["unavailable"]
    assert unavailable.startswith("kubernetes: ")
