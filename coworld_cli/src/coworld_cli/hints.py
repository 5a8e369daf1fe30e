"""What to do next, in words of the command line: the options and commands for the codes of the libraries' hints."""

from __future__ import annotations

import shlex
import string
from collections.abc import Mapping, Sequence
from typing import Any, cast

from coworld_core.hints import Hint, hint_from
from coworld_core.text import pasteable

__all__ = ["WORDS", "with_command_hints", "worded"]

WORDS: Mapping[str, str] = {
    # Packages, manifests and images
    "copy_example": "The examples are in a clone of the repository. Elsewhere, `coworld demo -o examples/paintarena` "
    "writes the sample world, and `coworld init game NAME` begins a game.",
    "build_again": "`coworld build {directory!q}` brings the manifest up to date.",
    "build_directory": "Run `coworld build {directory!q}` first.",
    "build_first": "Run `coworld build` to make a manifest of it.",
    "build_or_process": "Leave out --build, or --backend process.",
    "build_hosted": "Build with --platform {platform} before you upload.",
    "build_images": "Build them with `coworld build DIRECTORY`, or run local processes with --backend process.",
    "build_or_wait": "If it is yours, build it with `coworld build`. Otherwise see whether this machine reaches its "
    "registry.",
    "build_or_log_in": "If it is yours, build it with `coworld build`. If its registry wants a login: docker login.",
    "build_or_pull": "Build it with `coworld build`, or let it be pulled.",
    "build_spec_images": "Build them with `coworld build DIRECTORY`.",
    "build_viewer": "`coworld build` makes the viewer.",
    "make_images": "`coworld build` makes the images.",
    "name_or_begin_game": "Name the manifest's file itself, or begin a game with `coworld init game NAME`.",
    "name_server": "Name the server with --server, or the manifest's own file.",
    "name_service": "Name the service with --service, and the images of others in the template; or write a compose "
    "file.",
    "name_sources": "Leave out --build, or name the directory that it is built from.",
    "name_template": "Name the one to build from with --template.",
    "pin_image": "Pin it by its digest, or let `coworld build` make a tag of its content.",
    "pin_source": "`coworld build` pins it once it is pushed; or link to …/tree/<full SHA>/<path>.",
    "update_images": "`coworld build`, or --build, brings them up to date.",
    # Gates
    "accept_version": "Put its files back, or accept another version as it is: `coworld gate BOT --accept`.",
    "copy_version": "Copy its files to such a folder, and gate that: `coworld registry fetch NAME:vN -o DIR`.",
    "gate_first": "`coworld gate BOT` makes one.",
    # Certificates
    "certify_for_certificate": "`coworld certify {package!q}` leaves one. To compare one with the Coworld as it is: "
    "coworld certificate verify CERTIFICATE {package!q}",
    "give_public_key": "Give the public key that you have from its authority with --key.",
    "make_key": "`coworld certificate keygen FILE` makes one.",
    # Backends
    "backend_with_hosts": "Docker can (--backend docker), and so can a cluster that enforces network policies.",
    "certify_images": "Certify with --backend docker, too.",
    "isolate_programs": "--isolated gives game and players pods of their own, which can.",
    "kubernetes_backend": "Use a backend that can (--backend kubernetes).",
    "or_processes": "{hint} Or use --backend process, which needs no engine.",
    "other_backend": "Use a backend that can (--backend docker), or do not ask for it.",
    "play_programs": "Play the game and its players as programs: --backend process.",
    "play_in_containers": "`coworld play` runs it in containers.",
    "install_wsl": "On Windows, install WSL 2 with `wsl --install`, and play there.",
    "sweep": "`coworld clean` finds them.",
    "sweep_leftovers": "`coworld clean` lists them, `coworld clean --yes` removes them.",
    "install_packages": "Local processes run with the Python that runs coworld, which has no {module}: install it there"
    "{told}, add --install for an environment of the package's own, or use --backend docker.",
    # Kubernetes
    "allow_privileged": "Add --allow-privileged if whoever wrote the file may do everything on the nodes.",
    "check_worker_image": "Check the image {image!r} (--worker-image), what pulls it (--pull-secret), and whether pods "
    "reach the store.",
    "detach_run": "The command that began it goes on with it, or has it driven on the cluster: --detach.",
    "install_jobs": "Install it with: pip install 'coworld-runner[jobs]'",
    "leave_programs_out": "Leave out --max-programs, or play programs: --backend process.",
    "name_stored_run": "Name what was given to --store; or its label, or one of its Jobs, with its --namespace.",
    "name_store": "Name the place that was given to --store.",
    "play_images": "--backend kubernetes plays programs of images.",
    "check_permissions": "`coworld doctor --backend kubernetes` says what is not permitted.",
    "collector_image_unreachable": "The pods' own helper runs in {image!r}: name another image with Python with "
    "--collector-image.",
    "correct_kubeconfig": "Correct the variable, or name the file with --kubeconfig.",
    "install_policies": "Install Calico or Cilium; if yours does enforce them, say so with --network-policy.",
    "make_job": "`coworld kubernetes job` makes a Job that has everything; docs/worker.md lists the variables.",
    "make_namespace": "Make it with: kubectl create namespace {namespace}. Or name another with --namespace.",
    "mount_token": "Mount its token (automountServiceAccountToken), or name a kubeconfig with --kubeconfig.",
    "name_kubeconfig": "Name the file that your cluster gave you with --kubeconfig.",
    "name_kubeconfig_or_backend": "Name the file that your cluster gave you with --kubeconfig, or set KUBECONFIG. "
    "Or use --backend docker or process, which need no cluster.",
    "name_pull_secret": "If {image!r} exists, the cluster needs a login for its registry: --pull-secret, or "
    "imagePullSecrets of the service account. Many registries say the same of an image that does not exist.",
    "open_player_network": "--player-network open lifts this restriction.",
    "other_collector_image": "--collector-image names another.",
    "other_context": "See whether it can be reached: kubectl version. Or name another context with --context.",
    "reachable_collector_image": "It is pulled with the first episode; where that is not possible, name another image "
    "with Python with --collector-image.",
    "run_fewer": "Run fewer episodes at a time (--parallel), or ask for less.",
    "spec_address": "Put it where the cluster can fetch it, and give that address with --spec-url.",
    "sweep_cluster": "`coworld clean --backend kubernetes --yes` removes them; newer clusters do so by themselves.",
    # Games for other machines
    "announce_address": "Name it with --announce, or listen on that one only, with --host.",
    "give_certificate": "Give the certificate, too, with --tls-cert.",
    "show_certificate": "If it asks for a certificate of yours, name the file with it and its key in "
    "COWORLD_CLIENT_CERT.",
    "trust_authority": "If you trust that authority, name the file with its certificate in COWORLD_CA_FILE.",
    "serve_with_tls": "Give a certificate with --tls-cert and --tls-key, or --announce the wss:// address of a proxy "
    "that has one. In a network that you trust, --no-tls lets them.",
    # Episodes
    "allow_longer": "Read the logs for what it waited for, or allow more with --timeout-seconds.",
    "allow_program_longer": "Read its log for what it waited for.",
    "allow_longer_alone": "A player stays until the game closes its connection or says that it is over. If the game "
    "did, it is the game that hangs; if it plays on without players, allow more with --abandoned-timeout-seconds.",
    "name_run": "`coworld runs list` shows the runs; name one by its directory, or the beginning of its id.",
    "other_disk_index": "Free some room, or name a file on another disk with --index.",
    "record_episode": "Episodes are recorded if asked to: --record samples, or --record frames.",
    "record_frames_first": "Only games of the kit keep their actions by tick in the replay. Of others, --record frames "
    "keeps what was said, and recording:DIRECTORY@SLOT repeats it.",
    "record_frames": "Record what players and game say to each other: --record frames.",
    "overwrite_export": "Name another directory, or replace what is there with --overwrite.",
    "aws_region": "Give --aws-region, or set AWS_REGION.",
    "aws_sign_in": "Sign in first (aws sso login), or name another profile with --aws-profile.",
    "aws_variables": "Install it, or hand the variables over with --secret-env-file.",
    "collect_longer": "Let it write less.",
    "fetch_first": "Fetch the image beforehand.",
    "fresh_workspace": "Name a new directory with -o, leave -o out for a fresh one, or add --overwrite to remove what "
    "a run has left in it.",
    "name_price": "Name each model with its price, in US dollars per million tokens: --llm-model MODEL=IN,OUT.",
    "record_models": "Record an episode first: `coworld run … --record-models`.",
    "leave_hosts_out": "Leave --player-https out.",
    "leave_network_out": "Leave --player-network out: its default allows only the game and those hosts.",
    "other_disk": "Free some room, or name a directory on another disk with -o.",
    "other_workspace": "Name another directory with -o.",
    "other_workspace_or_move": "Name another directory with -o, or move that elsewhere first. What the published "
    "runner left has no record: remove it yourself.",
    "resume_or_fresh": "Go on with its run with --resume, name a new directory with -o, or add --overwrite to remove "
    "what a run has left in it.",
    "set_secret": "Set it first (export {name}=...), or put {name}=... into a file for --secret-env-file.",
    "writable_workspace": "Name a directory you may write to with -o.",
    # Players
    "allow_host": "In a container a player can reach only the game, unless --player-https HOST allows more.",
    "begin_player": "`coworld init player FILE` begins a player.",
    "find_or_begin_player": "Paths are relative to the current directory. `coworld init player FILE` begins a player.",
    "leave_run_out": "The kind of a file determines how it runs: leave --run out.",
    "name_command": "Give the image's command with --run, one token at a time, or put the program into the image.",
    "name_first": "The name comes first: `coworld registry publish {name!q} {player!q}`.",
    "name_own_files": "Name a file or a directory for each seat: --player ./FILE.",
    "play_own_files": "Play it with `coworld run-episode`, which takes a file or a directory for each seat.",
    "upload_player_image": "Build it here and upload the image: docker build -t {name} {path!q}, then "
    "coworld upload-policy {name}:latest --name {name}.",
    # Supporting roles
    "name_package": "Name its package with --game: a bundle does not say where that is.",
    "name_optimizer": "Name a file, a command or an image with --with, or declare one in the manifest.",
    "name_role": "Name a file or an image with --{role}, or declare one in the manifest; `coworld init {role}` begins "
    "one.",
    # Evaluations and tournaments
    "add_entrants": "Add them with `coworld tournament add`.",
    "begin_tournament": "Begin one with `coworld tournament init`.",
    "hook_deadline": "Give every wait in it a limit, or it more time with --hook-timeout-seconds.",
    "hook_for_runs": "Use it with `coworld run`.",
    "more_blocks": "Allow more (--max-blocks).",
    "leave_others_out": "Leave --others out.",
    "name_others": "Name the policy that is to sit there (--others).",
    "fewer_episodes": "Fewer at a time may help (--parallel).",
    "give_commissioner": "Name a command or an image with --commissioner.",
    "name_commissioner": "Name one with --commissioner: {known}.",
    "name_player": "Name one with --player.",
    "name_pool": "Name players with --pool.",
    "other_name": "Give this one another name with --name.",
    "other_port": "Name another with --port, or none for any.",
    "repeat_evaluation": "Repeat the command that began it, or name another directory with -o.",
    "restore_player": "Restore the old content, or start again: in another directory (-o), or under another name.",
    "show_tournament": "That is a tournament: `coworld tournament show {directory!q}`.",
    # Replays and bundles
    "name_game": "Name the game first: coworld replay MANIFEST {bundle!q}.",
    "fork_frames": "Games that are not of the kit are continued if they were recorded: run --record frames.",
    "fork_processes": "Play it with --backend process --record frames, and continue that.",
    "name_fork_game": "Name the Coworld after the run; its rules are executed.",
    "name_fork_player": "Name a player for it: --seat SEAT PLAYER.",
    "verify_fork": "`coworld verify {run!q}` compares all of it.",
    "play_and_name": "`coworld run-episode MANIFEST` leaves one; any other can be named by its path.",
    "play_first": "`coworld run-episode MANIFEST` leaves one; `coworld replay MANIFEST REPLAY` shows any other.",
    "smaller_page": "A page takes {size}. `coworld replay` without --html shows this one.",
    "whole_bundle": "Copy it into the bundle. `coworld replay` without --html shows this one.",
    "whole_page": "The page must contain its scripts, styles and pictures. `coworld replay` shows this one.",
    "whole_replay": "The whole replay must be sent when its socket is opened. `coworld replay` shows this one.",
    # Games of libraries
    "list_games": "`coworld game wrap --list {library}` has all names.",
    "near_game": "Did you mean {library}:{near}? `coworld game wrap --list {library}` has all names.",
    # A platform
    "act_as_yourself": "Act as yourself: `coworld player unset`.",
    "ask_for_token": "Get a token from whoever runs it, and hand it to `coworld set-token` by standard input.",
    "certify_first": "Run `coworld certify`, fix what it finds, and then upload; or skip certification and say why.",
    "check_identity": "Check the name, and as whom you act: `coworld whoami`.",
    "create_player": "Create one with `coworld player create NAME`.",
    "name_division": "Name one with --division: {divisions}.",
    "leave_out_league": "Name the division alone: leave out --league.",
    "read_player_whole": "`coworld upload-policy` reads every kind of player.",
    "list_memberships": "`coworld memberships --mine` lists those that are; `coworld submit` enters one.",
    "name_league": "Name one with --league.",
    "new_checkpoint": "Name another file, or start a new one with --reset.",
    "renew_session": "`coworld player use {player}` starts a new one; `coworld player unset` makes you act as yourself "
    "again.",
    "sign_in": "Run `coworld login`, or set COWORLD_TOKEN.",
    "sign_in_again": "Sign in again with `coworld login`, or set COWORLD_TOKEN.",
    "sign_in_and_renew": "Run `coworld login --server {server}`, or set COWORLD_TOKEN. Then `coworld player use "
    "{player}` starts a new one; `coworld player unset` makes you act as yourself again.",
    "sign_in_to": "Run `coworld login --server {server}`, or set COWORLD_TOKEN.",
    "upload_image": "Build an image of it, for linux/amd64, and upload that: coworld upload-policy IMAGE --name NAME.",
    "use_player": "Sign in as yourself, then `coworld player use`; or set COWORLD_TOKEN to act with it directly.",
    "cancel_request": "Cancel that request: `coworld stop {id}`.",
    "sweep_again": "`coworld clean --yes` tries again.",
    "wait_again": "It continues; wait again, or follow it with `coworld xp-request watch {id}`.",
}
"""The words by code; `{name}` stands for a value, and `{name!q}` for one that a shell reads.

Hints with other codes are shown in words of the library."""


class _Words(string.Formatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion != "q":
            return super().convert_field(value, conversion)
        return pasteable(shlex.quote(str(value)), quoted=True)


def worded(hint: str | None) -> str | None:
    """A hint in words of the command line; one without such words as it is, without its code."""
    if not isinstance(hint, Hint) or hint.code not in WORDS:
        return hint
    try:
        return _Words().vformat(WORDS[hint.code], (), hint.values)
    except KeyError:
        # A record of another version may lack a value
        return str(hint)


def with_command_hints(data: object) -> object:
    """JSON data with its hints in words of the command line; their codes and values stay beside them."""
    if isinstance(data, Mapping):
        fields = {key: with_command_hints(value) for key, value in cast("Mapping[str, object]", data).items()}
        hint = hint_from(fields)
        return {**fields, "hint": worded(hint)} if isinstance(hint, Hint) else fields
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return [with_command_hints(value) for value in cast("Sequence[object]", data)]
    return data
