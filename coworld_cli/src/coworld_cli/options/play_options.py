"""Options of the commands that play: where things run, which package, and how."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

import click

from coworld_core import time_limits

from .declarations import Options, argument, declared_by, option, refuse_options
from .platform import server_field
from .values import DIRECTORY, FILE, AtATime, BackendName, HttpsHosts, Quantity, Seconds, check_run

if TYPE_CHECKING:
    from pathlib import Path

    from coworld_runner.backend import Limits
    from coworld_runner.backends import ClusterOptions
    from coworld_runner.episode import EpisodeOptions, ModelAccess, Parallel

__all__ = [
    "ONE_VARIANT",
    "REQUIREMENTS",
    "AttemptOptions",
    "EvaluationOptions",
    "MeasuringOptions",
    "PackageOptions",
    "PlayOptions",
    "StoreOptions",
    "WhereOptions",
    "manifest_argument",
    "package_server_option",
]

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "isolation": ("network_isolation", "file_isolation"),
    "network": ("network_isolation",),
    "files": ("file_isolation",),
    "memory": ("memory_limit",),
    "cpu": ("cpu_limit",),
    "pids": ("pids_limit",),
    "disk": ("disk_limit",),
    "images": ("images",),
}
"""Value of `--require` → names of a backend's capabilities."""

_WHERE = "Where it runs"
_CLUSTER = "Kubernetes"
_WITHOUT_CLUSTER = frozenset({"auto", "process", "docker"})


class WhereOptions(Options):
    """Where things run, and for which platform."""

    backend: str = option(
        "--backend",
        section=_WHERE,
        type=BackendName(auto=True),
        metavar="NAME",
        default="auto",
        envvar="COWORLD_BACKEND",
        show_default=True,
        show_envvar=True,
        help="Local processes (process, for code you trust), Docker containers (docker), pods of a cluster "
        "(kubernetes), whichever of the first two fits (auto), or any other backend that is installed.",
    )
    context: str | None = option(
        "--context", section=_CLUSTER, metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"
    )
    namespace: str | None = option(
        "--namespace",
        section=_CLUSTER,
        metavar="NAME",
        envvar="COWORLD_NAMESPACE",
        show_envvar=True,
        help="Namespace of the cluster.  [default: the context's own]",
    )
    kubeconfig: Path | None = option(
        "--kubeconfig",
        section=_CLUSTER,
        type=FILE,
        metavar="FILE",
        help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config]",
    )
    collector_image: str | None = option(
        "--collector-image",
        section=_CLUSTER,
        metavar="IMAGE",
        envvar="COWORLD_COLLECTOR_IMAGE",
        show_envvar=True,
        help="Any image with Python, for the helper in each pod.  [default: python:3.12-slim]",
    )
    pull_secrets: tuple[str, ...] = option(
        "--pull-secret",
        section=_CLUSTER,
        multiple=True,
        metavar="NAME",
        help="Secret of the namespace with which the cluster pulls images. May be repeated.",
    )
    pods: Path | None = option(
        "--pods",
        section=_CLUSTER,
        type=FILE,
        metavar="FILE",
        help="YAML with partial pod templates for all, game, player and worker, laid over our pods.",
    )
    allow_privileged: bool = option(
        "--allow-privileged",
        section=_CLUSTER,
        is_flag=True,
        default=False,
        help="Let --pods ask for what leads out of a pod: the host, root, Secrets, accounts.",
    )
    network_policy: bool | None = option(
        "--network-policy/--no-network-policy",
        section=_CLUSTER,
        help="Whether the cluster enforces network policies.  [default: inferred from what is installed there]",
    )
    install: bool = option(
        "--install",
        section=_WHERE,
        is_flag=True,
        default=False,
        help="For local processes: give the package, and each player that is a directory, an environment of its own "
        "with what its Dockerfile installs by pip. Made once for each content.",
    )
    platform: str | None = option(
        "--platform", section=_WHERE, metavar="OS/ARCH", help="Platform of the images, e.g. linux/amd64."
    )

    def cluster(self) -> ClusterOptions:
        """The options for a cluster."""
        from dataclasses import fields

        from coworld_runner.backends import ClusterOptions

        return ClusterOptions(**{item.name: getattr(self, item.name) for item in fields(ClusterOptions)})

    def refuse_cluster(self, backends: Collection[str] | None = None) -> None:
        """Refuse cluster options if no backend can be a cluster.

        Args:
            backends: Names of backends; None: that of the option.

        Raises:
            click.UsageError: One was given on the command line.
        """
        from dataclasses import fields

        from coworld_runner.backends import ClusterOptions

        if _WITHOUT_CLUSTER.issuperset((self.backend,) if backends is None else backends):
            refuse_options({item.name for item in fields(ClusterOptions)}, "goes with --backend kubernetes.")

    def backend_options(self) -> list[str]:
        """The options of a follow-up command that make it run in the same place."""
        return [
            *(["--backend", self.backend] if self.backend != "auto" else []),
            *(["--install"] if self.install else []),
        ]


class PackageOptions(WhereOptions):
    """A package, and where it is to run."""

    manifest: str = argument("")
    server: str | None = server_field("API that a cow_… id is fetched from.")
    env: tuple[str, ...] = option(
        "--env",
        section="What to play",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set this variable for the game and the players, overriding the manifest; repeatable.",
    )

    build: bool = option(
        "--build",
        section=_WHERE,
        is_flag=True,
        default=False,
        help="Build the images first, so that containers run the sources as they are now.",
    )

    @classmethod
    def at(cls, where: WhereOptions, *, manifest: str, server: str | None) -> PackageOptions:
        """Build the options for a package from those of a command that takes no MANIFEST."""
        return cls(**where.__dict__, manifest=manifest, server=server)


manifest_argument = declared_by(PackageOptions, "manifest")
package_server_option = declared_by(PackageOptions, "server")

ONE_VARIANT = "Variant to play, or a pattern that matches only one. Default: the certification fixture."
_TOKENS = "one token each: --run python --run -m --run my_player."


class PlayOptions(PackageOptions):
    """Options of the commands that play; each command leaves out those that it does not need."""

    players: tuple[str, ...] = argument((), nargs=-1, metavar="[EPISODE_REQUEST.json | PLAYER...]")
    player: tuple[str, ...] = option(
        "--player",
        section="What to play",
        multiple=True,
        metavar="PLAYER",
        help="The same as PLAYER: a file (./bot.py), a directory, the id of a bundled player, an image, "
        "llm:MODEL, recording:EPISODE@SLOT or random. Repeatable; a suffix @N gives it N seats.",
    )
    variant: str | None = option(
        "--variant",
        section="What to play",
        metavar="ID",
        help="Variant to play, or a pattern ('small-*') for several, in turn. Default: the certification fixture.",
    )
    assignments: tuple[str, ...] = option(
        "--set",
        section="What to play",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change this field of the game config, such as players.0.name; VALUE is JSON or text. Repeatable.",
    )
    config: str | None = option(
        "--config",
        section="What to play",
        metavar="FILE",
        help="Change the fields of the game config that this JSON, TOML or YAML file has. --set comes after it.",
    )
    steps: int | None = option(
        "--steps",
        section="What to play",
        type=click.IntRange(min=1),
        metavar="N",
        help="Length of an episode, for games whose config limits it: max_ticks, rounds or the like.",
    )
    hook: tuple[str, ...] = option(
        "--hook",
        section="What to play",
        multiple=True,
        metavar="FILE.py[:NAME]|NAME",
        help="Let this function change the plan of each episode before it starts: one of a file, or an installed one. "
        "Repeatable, in order.",
    )
    seed: int | None = option(
        "--seed", section="What to play", type=int, metavar="N", help="Put this seed into the game config."
    )
    run: tuple[str, ...] = option(
        "--run",
        section="What to play",
        multiple=True,
        metavar="TOKEN",
        help=f"Command of player images, {_TOKENS}",
    )
    output_dir: Path | None = option(
        "--output-dir",
        "-o",
        section="Evidence",
        type=DIRECTORY,
        metavar="DIR",
        help="New or empty directory for the evidence. Default: a fresh one under results/ beside the manifest.",
    )
    label: tuple[str, ...] = option(
        "--label",
        section="Evidence",
        multiple=True,
        metavar="NAME=VALUE",
        help="Label the run, to find it again with `coworld runs list --label`; repeatable.",
    )
    record: Literal["samples", "frames"] | None = option(
        "--record",
        section="Evidence",
        type=click.Choice(["samples", "frames"]),
        help="Record while it is played: what each seat saw and did (games of the kit), or every message of any game.",
    )
    overwrite: bool = option(
        "--overwrite",
        section="Evidence",
        default=False,
        is_flag=True,
        help="Remove what an earlier run left in the output directory first.",
    )
    episodes: int = option(
        "--episodes",
        "-n",
        section="What to play",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Number of episodes to play.",
        show_default=True,
    )
    parallel: Parallel = option(
        "--parallel",
        section="What to play",
        type=AtATime(),
        default="auto",
        metavar="K",
        help="Number of episodes to play at a time; auto: as many as this machine can handle.",
        show_default=True,
    )
    max_programs: int | None = option(
        "--max-programs",
        section="What to play",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of programs at a time, in all episodes together.  [default: as many as there is memory for]",
    )
    verify_replay: bool = option(
        "--verify-replay/--no-verify-replay",
        section="Evidence",
        default=False,
        help="Load the replay afterwards, and fail if neither the game nor its static viewer shows it.",
    )
    human: tuple[int, ...] = option(
        "--human",
        section="What to play",
        type=click.IntRange(min=0),
        multiple=True,
        metavar="SLOT",
        help="Leave this seat to a person in the browser; repeatable. Default: bots in all seats.",
    )
    admin: bool = option(
        "--admin", section="What to play", default=False, is_flag=True, help="Ask the game for its admin page."
    )
    watch: bool = option(
        "--watch", section="Evidence", default=False, is_flag=True, help="Open the game's live page in the browser."
    )
    timeout_seconds: float = option(
        "--timeout-seconds",
        section="Times",
        type=Seconds(least=1),
        default=time_limits.EPISODE,
        help=f"Deadline of the whole episode.  [default: {time_limits.EPISODE:g}]",
    )
    ready_timeout_seconds: float = option(
        "--ready-timeout-seconds",
        section="Times",
        type=Seconds(),
        default=time_limits.READY,
        help=f"Time for the game to become healthy.  [default: {time_limits.READY:g}]",
    )
    player_exit_timeout_seconds: float = option(
        "--player-exit-timeout-seconds",
        section="Times",
        type=Seconds(zero=True),
        default=time_limits.PLAYER_EXIT,
        help=f"Time for players to exit once the game is over.  [default: {time_limits.PLAYER_EXIT:g}]",
    )
    hook_timeout_seconds: float = option(
        "--hook-timeout-seconds",
        section="Times",
        type=Seconds(),
        default=time_limits.HOOK,
        help=f"Time for each --hook to return the plan.  [default: {time_limits.HOOK:g}]",
    )
    linger_seconds: float = option(
        "--linger-seconds",
        section="Times",
        type=Seconds(zero=True),
        default=time_limits.LINGER,
        help="How long a game may go on for viewers after results and replay are complete.  "
        f"[default: {time_limits.LINGER:g}]",
    )
    abandoned_timeout_seconds: float = option(
        "--abandoned-timeout-seconds",
        section="Times",
        type=Seconds(zero=True),
        default=time_limits.ABANDONED,
        help="How long a game may go on after all its players have left, to write its results.  "
        f"[default: {time_limits.ABANDONED:g}]",
    )
    on_player_failure: Literal["stop", "continue"] = option(
        "--on-player-failure",
        section="What to play",
        type=click.Choice(["stop", "continue"]),
        default="stop",
        show_default=True,
        help="End the episode when a player fails, or let the game decide.",
    )
    player_network: Literal["game-only", "open"] | None = option(
        "--player-network",
        section="Limits",
        type=click.Choice(["game-only", "open"]),
        help="What players can reach: only the game, or also the internet and each other.  "
        "[default: game-only; open with --use-bedrock, unless --player-https names hosts]",
    )
    player_https: tuple[str, ...] = option(
        "--player-https",
        section="Limits",
        type=HttpsHosts(),
        default=(),
        help="The only hosts outside the game that players may reach, by HTTPS: api.example.com, or *.example.com for "
        "all its subdomains.",
    )
    players_drop_privileges: bool = option(
        "--players-drop-privileges",
        section="Limits",
        is_flag=True,
        default=False,
        help="Let the start scripts of player images change file owners and switch users (chown, gosu), as those of "
        "game images may.",
    )
    require: tuple[str, ...] = option(
        "--require",
        section="Limits",
        type=click.Choice(list(REQUIREMENTS)),
        multiple=True,
        help="Refuse to start on a backend that cannot enforce this; repeatable.",
    )
    player_memory: float | None = option(
        "--player-memory", section="Limits", type=Quantity("memory"), help="Limit of each player, e.g. 512Mi."
    )
    player_cpus: float | None = option(
        "--player-cpus", section="Limits", type=Quantity("cpu"), help="Limit of each player, e.g. 1.5 or 500m."
    )
    player_pids: int | None = option(
        "--player-pids", section="Limits", type=click.IntRange(min=1), metavar="N", help="Limit of each player."
    )
    game_memory: float | None = option(
        "--game-memory", section="Limits", type=Quantity("memory"), help="Limit of the game."
    )
    game_cpus: float | None = option("--game-cpus", section="Limits", type=Quantity("cpu"), help="Limit of the game.")
    game_pids: int | None = option(
        "--game-pids", section="Limits", type=click.IntRange(min=1), metavar="N", help="Limit of the game."
    )
    secret_env: tuple[str, ...] = option(
        "--secret-env",
        section="Secrets for players",
        multiple=True,
        metavar="NAME",
        help="Pass this variable of your environment to players; repeatable.",
    )
    secret_env_file: tuple[Path, ...] = option(
        "--secret-env-file",
        section="Secrets for players",
        type=FILE,
        multiple=True,
        metavar="FILE",
        help="Pass players the variables of a file with one NAME=VALUE per line; repeatable.",
    )
    use_bedrock: bool = option(
        "--use-bedrock",
        section="Secrets for players",
        default=False,
        is_flag=True,
        help="Pass AWS credentials for Bedrock to players.",
    )
    aws_profile: str | None = option(
        "--aws-profile", section="Secrets for players", metavar="NAME", help="AWS profile; needs --use-bedrock."
    )
    aws_region: str | None = option(
        "--aws-region", section="Secrets for players", metavar="REGION", help="AWS region; needs --use-bedrock."
    )
    use_llm: bool = option(
        "--use-llm",
        section="Language models",
        default=False,
        is_flag=True,
        help="Give the game and its players a way to language models. OPENAI_API_KEY, ANTHROPIC_API_KEY, "
        "OPENROUTER_API_KEY, or COWORLD_LLM_ENDPOINT of your environment say where; no program sees a key.",
    )
    llm_model: tuple[str, ...] = option(
        "--llm-model",
        section="Language models",
        default=(),
        multiple=True,
        metavar="MODEL[=IN,OUT]",
        help="A model that may be asked, with US dollars per million tokens in and out; repeatable, the usual one "
        "first.  [default: any]",
    )
    llm_budget: str = option(
        "--llm-budget",
        section="Language models",
        default="",
        metavar="LIMITS",
        help="What each seat, and the game, may use: calls=100,tokens=1e6,usd=0.5, or some of these.",
    )
    llm_episode_budget: str = option(
        "--llm-episode-budget",
        section="Language models",
        default="",
        metavar="LIMITS",
        help="The same for all of an episode together.",
    )
    record_models: bool = option(
        "--record-models",
        section="Language models",
        default=False,
        is_flag=True,
        help="Keep every question to a model and its answer, in models.ndjson.",
    )
    replay_models: Path | None = option(
        "--replay-models",
        section="Language models",
        type=DIRECTORY,
        metavar="EPISODE",
        help="Answer from such a recording: no network, no key, no cost.",
    )

    def check(self) -> None:
        """Check that the options fit together."""
        super().check()
        check_run(self.run)
        if self.label:
            _ = self.labels
        if self.players and self.player:
            raise click.UsageError(
                "Players are named one after the other or with --player, not both.", click.get_current_context()
            )
        if any(",proportion=" in player for player in self.named):
            raise click.UsageError(
                "An episode has no proportions: `coworld mix` shares the seats by them.", click.get_current_context()
            )
        if (self.aws_profile or self.aws_region) and not self.use_bedrock:
            raise click.UsageError("--aws-profile and --aws-region need --use-bedrock.", click.get_current_context())
        if self.watch and self.episodes > 1:
            raise click.UsageError("--watch shows one episode, and these are several: leave out -n, or --watch.")

    @property
    def named(self) -> tuple[str, ...]:
        """The players, from whichever option names them."""
        return self.players or self.player

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the run."""
        from .values import parse_labels

        return parse_labels(self.label)

    @property
    def network(self) -> Literal["game-only", "open"] | None:
        """The network of players; Bedrock cannot be reached from the game's network, unless hosts are named."""
        return self.player_network or ("open" if self.use_bedrock and not self.player_https else None)

    @property
    def models(self) -> ModelAccess | None:
        """The language models that programs may use; None: none of the options is given."""
        words = (self.llm_model, self.llm_budget, self.llm_episode_budget, self.record_models, self.replay_models)
        if not self.use_llm and not any(words):
            return None
        from coworld_runner.episode import read_model_access

        return read_model_access(
            os.environ,
            models=self.llm_model,
            budget=self.llm_budget,
            episode_budget=self.llm_episode_budget,
            record=self.record_models,
            replay=self.replay_models,
        )

    def episode(self, *, watch: bool, countdown: float = 0.0, rematch: bool = False) -> EpisodeOptions:
        """Options of the episode. Capabilities that were named explicitly must be enforced.

        Args:
            watch: Whether to show the game's progress.
            countdown: Seconds for the game to count down before it starts.
            rematch: Whether another game follows on the same links.
        """
        from dataclasses import fields

        from coworld_runner.episode import EpisodeOptions

        required = [name for word in self.require for name in REQUIREMENTS[word]]
        # Whatever is named as a field is passed on; without a default, that of the field holds.
        own = [item.name for item in fields(EpisodeOptions) if item.name in self.declared]
        named: dict[str, Any] = {name: value for name in own if (value := getattr(self, name)) is not None}
        special: dict[str, Any] = {
            "game_limits": _limits(self.game_memory, self.game_cpus, self.game_pids),
            "player_limits": _limits(self.player_memory, self.player_cpus, self.player_pids),
            "player_network": self.network,
            "required_capabilities": tuple(dict.fromkeys(required)),
            "watch": watch,
            "countdown_seconds": countdown,
            "rematch": rematch,
            "models": self.models,
        }
        return EpisodeOptions(**named | special)


class AttemptOptions(Options):
    """Options of a run of many episodes: which of them are played, and how often."""

    resume: bool = option(
        "--resume",
        section="Evidence",
        default=False,
        is_flag=True,
        help="Continue the run in the output directory: play only the missing episodes, and those that the platform or "
        "the operator lost.",
    )
    retry: tuple[str, ...] = option(
        "--retry",
        section="Evidence",
        default=(),
        multiple=True,
        metavar="PARTY=N",
        help="Play an episode again, up to N times, if the platform (or the operator) is at fault; the last attempt "
        "counts.",
    )

    @property
    def again(self) -> dict[str, int]:
        """How often what was lost is played again, by whose fault it was."""
        from .values import key_values

        try:
            return {party: int(count) for party, count in key_values("--retry", self.retry, form="PARTY=N").items()}
        except ValueError:
            raise click.UsageError(f"--retry {' '.join(self.retry)} names no number of attempts.") from None


class EvaluationOptions(PlayOptions):
    """Additional options of the commands that measure players."""

    max_blocks: int | None = option(
        "--max-blocks",
        section="What counts",
        type=click.IntRange(min=1),
        metavar="N",
        help="Play at most this many blocks: a block is one seed, with every player in every seat.  "
        "[default: 200, and at least three times what the clearest possible outcome needs]",
    )
    metric: str = option(
        "--metric",
        section="What counts",
        default="",
        metavar="POINTER",
        help="What is measured: a JSON pointer to a list in the results, one number per seat.  [default: the scores]",
    )
    forfeit: float | None = option(
        "--forfeit",
        section="What counts",
        type=float,
        metavar="SCORE",
        help="Score of a player that forfeits an episode by failing in it.  [default: the lowest that the game allows]",
    )
    count_starved: bool = option(
        "--count-starved",
        section="What counts",
        default=False,
        is_flag=True,
        help="Also count episodes that were short of CPU time: for games in which time does not matter.",
    )


_ON_PLATFORMS = frozenset(
    {
        *("manifest", "server", "players", "player", "variant", "assignments", "config", "steps", "seed"),
        *("output_dir", "label", "overwrite", "episodes", "parallel", "require"),
        *("max_blocks", "metric", "forfeit", "count_starved", "on_platform", "others"),
    }
)
"""Fields that mean something on a platform; the others say how programs run on this machine."""


class StoreOptions(Options):
    """Options of commands whose episodes pods of a cluster can play, from a store."""

    store: str | None = option(
        "--store",
        section=_CLUSTER,
        metavar="URL",
        help="Have pods of the cluster play, which take episodes from this place and leave rows there: "
        "s3://BUCKET/RUN, gs://…, az://…, or a directory that they all have. New, or that of the command to resume.",
    )
    worker_image: str | None = option(
        "--worker-image",
        section=_CLUSTER,
        metavar="IMAGE",
        help="For --store: an image with coworld-runner[jobs], and with what rules and players import.",
    )
    isolated: bool = option(
        "--isolated",
        section=_CLUSTER,
        default=False,
        is_flag=True,
        help="For --store: give the game and each player, which are images, a pod of its own, kept apart by network "
        "policies. Otherwise, an episode is one pod.",
    )

    def check(self) -> None:
        """Check that the options fit together."""
        super().check()
        if self.store is None:
            refuse_options({"worker_image", "isolated", "detach"}, "goes with --store.")


class MeasuringOptions(EvaluationOptions, StoreOptions):
    """Options of the commands whose measurements a platform can play, too."""

    on_platform: bool = option(
        "--on-platform",
        section=_WHERE,
        default=False,
        is_flag=True,
        help="Have the platform play: players are names of your policies (mine, mine:v3), and the game a Coworld's "
        "name or id, or a package with its name. --parallel is 4 by default.",
    )

    detach: bool = option(
        "--detach",
        section=_CLUSTER,
        default=False,
        is_flag=True,
        help="For --store: have the cluster drive the measurement, too, and do not wait. `coworld attach` follows it.",
    )
    max_cost: float | None = option(
        "--max-cost",
        section="What counts",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Begin no further block once language models have cost this much. The same command with more goes on.",
    )
    others: str | None = option(
        "--others",
        section="What to play",
        metavar="PLAYER",
        help="The player in the seats that no measured player has.  [default: the game's own players]",
    )

    def refuse_here(self) -> None:
        """Refuse options that say how programs run on this machine.

        Raises:
            click.UsageError: One was given on the command line.
        """
        here = [name for name in self.declared if name not in _ON_PLATFORMS]
        refuse_options(here, "is about programs that run here: it does not go with --on-platform.")


class CellOptions(EvaluationOptions, StoreOptions):
    """Options of commands that play several measurements one after the other, each from a store of its own."""

    store: str | None = option(
        "--store",
        section=_CLUSTER,
        metavar="URL",
        help="Have pods of the cluster play, which take episodes from here and leave rows: s3://BUCKET/SUITE, gs://…, "
        "az://…, or a directory that they all have. Each measurement has a place of its own below.",
    )
    detach: bool = option("--detach", section=_CLUSTER, default=False, is_flag=True, hidden=True)

    def check(self) -> None:
        """Check that the options fit together."""
        refuse_options(
            {"detach"},
            "is for a single measurement, such as compare or mix. This command decides what is played next, and has to "
            "run: start it where it may, such as in tmux. With --store, what was played is kept.",
        )
        super().check()


class SuiteOptions(MeasuringOptions, CellOptions):
    """The same, for what a platform can play, too."""


def _limits(memory: float | None, cpus: float | None, pids: int | None) -> Limits:
    from coworld_runner.backend import Limits

    return Limits(memory_bytes=int(memory) if memory is not None else None, cpus=cpus, pids=pids)
