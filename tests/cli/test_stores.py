"""`attach` and `pull`, and what does not go with `--store`, at the terminal."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from support.cli_kit import coworld

from coworld_core.episode.record import read_rows
from coworld_runner.evaluation import EvaluationRules, scrimmage
from coworld_runner.jobs import Detached, JobPods, JobVenue
from coworld_runner.jobs.job_store import JobStore
from coworld_runner.jobs.taking_part import take_part
from coworld_runner.package.resolver import resolve_package

NIM = Path(__file__).parents[2] / "examples" / "nim"


RUN = """{"run_id": "abcd1234", "source": "nim", "manifest": "m.json", "package_sha256": "", "environment": {},
"programs": false, "options": {}, "measured": "", "keeps_results": false, "lease_seconds": 60}"""


@pytest.fixture
def without_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


class NoPods(JobPods):
    """Pods of no cluster: the test plays itself."""

    async def start(self, run_id: str, store: JobStore, *, programs: bool = False) -> None:
        del run_id, store, programs

    drive = start

    async def close(self, *, remove: bool) -> None:
        del remove


@pytest.mark.slow
def test_a_detached_measurement_is_followed_and_brought(tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def begin() -> None:
        package, rules = await resolve_package(NIM), EvaluationRules(seed=7)
        with pytest.raises(Detached):
            async with JobVenue(package, store, pods=NoPods(), detach=("counter",)) as venue:
                await scrimmage(package, "counter", episodes=9, rules=rules, workspace=tmp_path / "begun", venue=venue)

    async def play() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_part, str(store))
            attached = await anyio.to_thread.run_sync(lambda: coworld("attach", store, tmp_path / "followed", "--json"))
            assert attached.status == 0, attached.stderr
            assert attached.json["plan"]["kind"] == "scrimmage"
            tasks.cancel_scope.cancel()

    anyio.run(begin)
    anyio.run(play)
    assert len(list(read_rows(tmp_path / "followed"))) == 9
    again = coworld("attach", store, tmp_path / "followed")
    assert again.status == 0, again.stderr
    assert "Episodes:  9" in again.stdout
    listed = coworld("runs", "list", "--store", store)
    assert "completed" in listed.stdout, listed.stderr
    assert "nim" in listed.stdout
    shown = coworld("runs", "show", "1", "--store", store, "--json")
    assert "replay" in shown.json["evidence"]
    assert coworld("runs", "query", "SELECT count(*) FROM episodes", "--store", store, "--json").json["rows"] == [[9]]
    assert "--root is for runs on this machine" in coworld("runs", "list", "--store", store, "--root", tmp_path).stderr
    pulled = coworld("pull", store, tmp_path / "pulled")
    assert pulled.stdout.startswith("9 episodes in")
    assert coworld("pull", store, tmp_path / "pulled", "--json").json == {
        "directory": str(tmp_path / "pulled"),
        "episodes": 9,
    }


@pytest.mark.usefixtures("without_cluster")
def test_a_run_is_ended_by_its_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "run.json").write_text(RUN)
    ended = coworld("stop", tmp_path / "store")
    assert ended.status == 0, ended.stderr
    assert "The run abcd1234 has ended" in ended.stdout
    assert f"--store {tmp_path / 'store'}" in ended.stdout
    assert "There is no run at" in coworld("stop", f"file://{tmp_path / 'else'}").stderr
    assert coworld("stop", "abcd", "--namespace", "arena").status == 3
    assert "--hard is for runs on this machine" in coworld("stop", tmp_path / "store", "--hard").stderr


def test_what_is_no_store_says_so(tmp_path: Path) -> None:
    for command in ("attach", "pull"):
        none = coworld(command, tmp_path / "store", tmp_path / "out")
        assert none.status == 2
        assert "There is no run at" in none.stderr
        assert "--store" in none.stderr
        odd = coworld(command, "ftp://there/it", tmp_path / "out")
        assert odd.status == 2
        assert "s3://BUCKET/PREFIX" in odd.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--store", "there", "--backend", "docker"), "does not go with --backend docker"),
        (("--detach",), "--detach goes with --store"),
        (("--worker-image", "one:1"), "--worker-image goes with --store"),
        (("--isolated",), "--isolated goes with --store"),
        (("--store", "there", "--on-platform"), "does not go with --on-platform"),
    ],
    ids=["backend", "detach", "image", "isolated", "platform"],
)
def test_what_does_not_go_with_a_store_is_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    refused = coworld("scrimmage", "-m", NIM, "counter", "-n", "4", "-o", tmp_path / "out", *options)
    assert refused.status == 2, refused.stderr
    assert words in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("suite", "run", "suite.toml", "--detach"), "--detach is for a single measurement"),
        (("suite", "run", "suite.toml", "--worker-image", "one:1"), "--worker-image goes with --store"),
        (("suite", "run", "suite.toml", "--store", "there", "--on-platform"), "does not go with --on-platform"),
        (("suite", "run", "suite.toml", "--store", "there", "--backend", "docker"), "not go with --backend docker"),
        (("gate", "bot.py", "--store", "there", "--detach"), "--detach is for a single measurement"),
        (("gate", "bot.py", "--store", "there", "--watch"), "is for a gate that decides by measuring"),
        (("improve", "-m", str(NIM), "bot.py", "--detach"), "--detach is for a single measurement"),
    ],
    ids=["detach", "image", "platform", "backend", "gate-detach", "watch", "improve-detach"],
)
def test_what_several_measurements_cannot_do_from_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text((NIM / "players" / "counter.py").read_text())
    (tmp_path / "suite.toml").write_text(f'game = "{NIM}"\n[[entry]]\nname = "one"\nlineups = [["counter"]]\n')
    refused = coworld(*command)
    assert refused.status == 2, refused.stderr
    assert words in " ".join(refused.stderr.split())
    assert {path.name for path in tmp_path.iterdir()} == {"bot.py", "suite.toml"}


@pytest.mark.usefixtures("without_cluster")
def test_a_suite_is_ended_by_its_store(tmp_path: Path) -> None:
    for name, label in (("one", "abcd1234"), ("two", "abcd5678")):
        (tmp_path / "store" / name).mkdir(parents=True)
        (tmp_path / "store" / name / "run.json").write_text(RUN.replace("abcd1234", label))
    ended = coworld("stop", tmp_path / "store", "--json")
    assert ended.json["run_id"] == "abcd1234, abcd5678", ended.stderr
    assert (tmp_path / "store" / "two" / "closed").read_bytes() == b"stopped\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--store", "there"), "add -n N"),
        (("--store", "there", "-n", "3", "--grade"), "--grade needs the programs here"),
        (("--worker-image", "one:1"), "--worker-image goes with --store"),
    ],
    ids=["one", "role", "image"],
)
def test_what_a_run_cannot_do_from_a_store(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    refused = coworld("run", NIM, "counter", "-o", tmp_path / "out", *options)
    assert refused.status == 2, refused.stderr
    assert words in " ".join(refused.stderr.split())
