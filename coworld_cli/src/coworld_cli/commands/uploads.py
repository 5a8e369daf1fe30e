"""Uploads to a platform: Coworlds, which are certified first, and policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coworld_core import time_limits

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, opened_client, run_api, run_async
from ..options.common import seconds_option
from ..options.declarations import refuse_options, takes
from ..options.platform import Connection, label_option, platform_options
from ..options.play_options import PackageOptions, WhereOptions
from ..options.values import IdType, PathType, check_run, key_values
from ..output import Output, published_option
from ..render import tables
from ..render.rows import dump
from ..render.text import clean, command_line, shown_path
from ..render.transfers import shown_images
from .labels import warn_unlabelled

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_client.uploads import UploadedCoworld
    from coworld_runner.doctor import Check
    from coworld_runner.package import OwnPlayer

__all__ = ["commands"]

commands = NounGroup()

_F = TypeVar("_F", bound=Callable[..., Any])


@commands.command("upload-coworld")
@click.argument("manifest", required=False)
@click.option(
    "--from-coworld",
    type=IdType("coworld", names=True),
    metavar="COWORLD_ID | NAME",
    help="Change a Coworld on the platform instead of uploading MANIFEST.",
)
@click.option("--version", metavar="VERSION", help="With --from-coworld: the new version.")
@click.option(
    "--patch", metavar="JSON | FILE", help="With --from-coworld: a JSON merge patch of the manifest; null deletes."
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="TARGET=IMAGE",
    help="With --from-coworld: another image for game, or for player, player.ID or player[N] (reporter, commissioner, "
    "grader, diagnoser, optimizer likewise); repeatable.",
)
@seconds_option("--timeout-seconds", time_limits.SMOKE_EPISODE, "Deadline of the certification's episode.", least=1)
@click.option(
    "--skip-certification", metavar="REASON", help="Upload it uncertified, giving a reason. The platform may refuse it."
)
@click.option(
    "--wait-hosted-smoke/--no-wait-hosted-smoke",
    default=True,
    help="Wait for its first episodes on the platform.  [default: wait]",
)
@seconds_option("--hosted-smoke-timeout-seconds", time_limits.HOSTED_SMOKE, "Maximum time to wait.")
@click.option("--visibility", type=click.Choice(["public", "private"]), help="Who sees it.  [default: the platform's]")
@label_option("Label this version")
@published_option("--wait-certification", says="the platform's first episodes are its certification.", is_flag=True)
@published_option("--no-wait-certification", says="--no-wait-hosted-smoke waits for nothing.", is_flag=True)
@published_option("--certification-timeout-seconds", says="--hosted-smoke-timeout-seconds is the limit.", type=float)
@takes("where", WhereOptions)
@platform_options
def upload_coworld(
    out: Output,
    connection: Connection,
    where: WhereOptions,
    manifest: str | None,
    from_coworld: str | None,
    version: str | None,
    patch: str | None,
    images: tuple[str, ...],
    timeout_seconds: float,
    skip_certification: str | None,
    wait_hosted_smoke: bool,
    hosted_smoke_timeout_seconds: float,
    visibility: str | None,
    labels: dict[str, str],
) -> int:
    """Certify and upload a Coworld, or a change to one.

    MANIFEST is the file that `coworld build` wrote, or its directory. It is first certified on this machine, and not
    uploaded if that fails. If the platform already has the version, the command says so.

    The exit status is 1 if it is not certified, or if one of the platform's first episodes failed.
    """
    if from_coworld is None:
        if manifest is None:
            raise click.UsageError("Missing argument 'MANIFEST'.", click.get_current_context())
        for name, value in (("--version", version), ("--patch", patch), ("--image", images)):
            if value:
                raise click.UsageError(f"{name} needs --from-coworld.")
    elif manifest is not None:
        raise click.UsageError("MANIFEST and --from-coworld exclude each other.")
    elif not (version or patch or images):
        raise click.UsageError("--from-coworld needs at least one of --version, --patch and --image.")
    if skip_certification is not None and not skip_certification.strip():
        raise click.UsageError("--skip-certification needs a reason.")
    if visibility is not None and from_coworld is not None:
        raise click.UsageError("--visibility is for a MANIFEST; a change keeps the visibility of its Coworld.")
    if from_coworld is not None or skip_certification is not None:
        certifies = {*WhereOptions.declared, "timeout_seconds"}
        refuse_options(certifies, "is for the certification on this machine, which is left out here.")
    if not wait_hosted_smoke:
        refuse_options({"hosted_smoke_timeout_seconds"}, "does not go with --no-wait-hosted-smoke.")
    edits = key_values("--image", images)

    from ..files import read_object

    merge = read_object(patch, what="--patch") if patch is not None else None

    async def body(api: CoworldClient, running: Running) -> int:
        from .coworlds import wait_smoke

        if from_coworld is not None:
            changes = {"version": version, "patch": merge, "images": edits or None, "labels": labels}
            done = await _update(api, from_coworld, changes, out, reason=skip_certification)
        else:
            options = PackageOptions.at(where, manifest=manifest or "", server=connection.server)
            done = await _upload(
                api,
                options,
                timeout_seconds,
                running,
                reason=skip_certification,
                visibility=visibility,
                labels=labels,
            )
            if done is None:
                return exitcodes.ANSWER_IS_NO
        coworld = done.coworld
        warn_unlabelled(api, out, labels, coworld.tags)
        out.say(tables.coworld_details(coworld))
        out.say("The platform already had this version." if done.already else "Uploaded.")
        answer = {**dump(coworld), "already": done.already, "images": [dump(image.image) for image in done.images]}
        if not wait_hosted_smoke:
            out.answer(answer)
            return exitcodes.OK
        out.note(f"Waiting for the platform's own episodes of {clean(coworld.id)}; they continue after Ctrl-C.")
        status = await wait_smoke(api, coworld.id, hosted_smoke_timeout_seconds, running)
        out.answer({**answer, **tables.smoke_answer(status)})
        out.say(tables.smoke_text(status))
        return exitcodes.ANSWER_IS_NO if status.verdict in ("failed", "pending") else exitcodes.OK

    return run_api(out, connection, body, changes=True)


async def _upload(
    api: CoworldClient,
    options: PackageOptions,
    timeout: float,
    running: Running,
    *,
    reason: str | None,
    visibility: str | None,
    labels: Mapping[str, str],
) -> UploadedCoworld | None:
    """Certify and upload a local manifest, or skip certification for a reason; None if certification fails."""
    from coworld_client.uploads import Certified, Uncertified
    from coworld_core.errors import UsageError
    from coworld_runner.package import resolve_package

    out = running.out
    package = await resolve_package(options.manifest, mode="strict", prefer="manifest", template=False)
    if package.path is None:
        raise UsageError(
            f"{package.source} is not a local file, so it cannot be uploaded.",
            code="manifest_not_local",
            hint="Download it first, or change a Coworld on the platform with --from-coworld.",
        )
    if reason is not None:
        out.warn(f"not certified: {clean(reason, one_line=True)}")
        certification = Uncertified(reason=reason)
    else:
        record = await _certified(options, str(package.path), timeout, running)
        if record is None:
            return None
        certification = Certified.from_record(record)
    with shown_images(out) as told:
        return await api.coworlds.upload(
            package.path, certification=certification, visibility=visibility, labels=labels, on_progress=told
        )


async def _certified(
    options: PackageOptions, manifest: str, timeout: float, running: Running
) -> Mapping[str, Any] | None:
    """Certify a manifest; the record, or None, after showing the failure, if it is not certified."""
    from coworld_runner.certification import CertifyOptions

    from ..render.certification import verdict_text
    from .packages import certify_here

    out = running.out
    options = options.but(manifest=manifest)
    how = CertifyOptions.within(timeout, platform=options.platform)
    certification = await certify_here(options, running, how)
    workspace = certification.layout.workspace
    record = certification.model_dump(mode="json", by_alias=True)
    if certification.ok:
        out.note(f"Certified: {certification.verdict}. The evidence is in {shown_path(workspace)}.")
        return record
    out.answer({"ok": False, "uploaded": False, "workspace": str(workspace), "certification": record})
    out.say(verdict_text(certification, manifest=manifest, backend=options.backend_options()))
    out.say(click.style("Not uploaded.", fg="red", bold=True))
    return None


async def _update(
    api: CoworldClient, source: str, changes: Mapping[str, Any], out: Output, *, reason: str | None
) -> UploadedCoworld:
    """Upload a change to a Coworld on the platform, whose other images are not on this machine."""
    from coworld_client.uploads import Uncertified

    if reason is None:
        reason = f"changed from {source} on the platform, without local images"
    out.warn(f"not certified on this machine: {clean(reason, one_line=True)}")
    with shown_images(out) as told:
        return await api.coworlds.update(source, certification=Uncertified(reason=reason), on_progress=told, **changes)


@commands.command("patch-commissioner")
@click.argument("name")
@click.argument("image")
@click.option("--runnable-id", metavar="ID", help="Which commissioner, if the Coworld has several.")
@click.option("--version", metavar="VERSION", help="Version to create. Default: the next one.")
@platform_options
def patch_commissioner(
    out: Output, connection: Connection, name: str, image: str, runnable_id: str | None, version: str | None
) -> int:
    """Give a Coworld another commissioner.

    This creates a new version of the Coworld. IMAGE is an image of the local Docker engine, or the img_… id of one on
    the platform.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        with shown_images(out) as told:
            coworld = await api.coworlds.patch_commissioner(
                name, image, runnable_id=runnable_id, version=version, on_progress=told
            )
        out.answer(dump(coworld))
        out.say(tables.coworld_details(coworld))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


def _published_policy_options(function: _F) -> _F:
    """Options of the published command for which this one asks the platform for nothing."""
    limits = "players get the limits that the platform gives everybody."
    alone = "the platform starts a player when its game is there, and waits for no port of it."
    reach = "what a player reaches is the platform's to decide."
    model = "--llm-model names a model of the platform's; give keys of your own with --secret-env."
    for names, says in (
        (("--cpu", "--cpu-limit", "--memory", "--gpu", "--instance-type"), limits),
        (("--startup-port", "--startup-path", "--startup-timeout"), alone),
        (("--https-host",), reach),
        (("--llm-endpoint", "--llm-api-key-env"), model),
        (("--title", "--description"), "it is not kept; --label NAME=VALUE is."),
    ):
        for name in names:
            function = published_option(name, says=says, multiple=True)(function)
    return function


@commands.command("upload-policy")
@click.argument("player", required=False, metavar="FILE | IMAGE")
@click.option("--file", "given_file", hidden=True, metavar="FILE", help="The same as FILE.")
@click.option("--name", "-n", metavar="NAME", help="Name of the policy.  [default: that of the file, or of the run]")
@click.option(
    "--league",
    "-l",
    type=IdType("league", names=True),
    metavar="LEAGUE",
    help="Submit it to this league afterwards: name or id.",
)
@click.option(
    "--run",
    multiple=True,
    metavar="TOKEN",
    help="Command of the image, one token each: --run python --run -m --run my_player.",
)
@click.option(
    "--secret-env",
    multiple=True,
    metavar="NAME",
    help="Pass this variable of your environment to the policy as a secret; repeatable.",
)
@click.option(
    "--secret-env-file",
    type=PathType(dir_okay=False, allow_dash=True),
    multiple=True,
    metavar="FILE",
    help="Pass it the variables of a file (- for standard input) with one NAME=VALUE per line; repeatable.",
)
@label_option("Label this version", also=("--tag",))
@click.option("--use-bedrock", is_flag=True, help="Let the policy use Bedrock on the platform.")
@click.option("--bedrock-model", metavar="MODEL", help="Which model; needs --use-bedrock.")
@click.option("--use-llm", is_flag=True, help="Let the policy use the platform's language model.")
@click.option("--llm-model", metavar="MODEL", help="Which model; needs --use-llm.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Upload nothing: check what an upload would find, also the league if one is named. No login is needed for it.",
)
@click.option("--game", "-m", metavar="MANIFEST", help="With --dry-run: also play short episodes of this game.")
@_published_policy_options
@platform_options
def upload_policy(
    out: Output,
    connection: Connection,
    player: str | None,
    name: str | None,
    league: str | None,
    run: tuple[str, ...],
    secret_env: tuple[str, ...],
    secret_env_file: tuple[Path, ...],
    labels: dict[str, str],
    use_bedrock: bool,
    bedrock_model: str | None,
    use_llm: bool,
    llm_model: str | None,
    dry_run: bool,
    game: str | None,
    given_file: str | None,
) -> int:
    """Upload a player as a version of a policy.

    FILE is a .py file, an executable, a directory with one file that plays or a pyproject.toml, or a training run, of
    which the newest checkpoint is uploaded, or `registry:NAME:v3`, a version of `coworld registry`. It runs in the
    game's own player image, on platforms that support this. IMAGE is an image of the local Docker engine. Content that
    the platform already has is not sent again.
    """
    if game is not None and not dry_run:
        raise click.UsageError("--game goes with --dry-run; `coworld check` checks a player as well.")
    if bedrock_model and not use_bedrock:
        raise click.UsageError("--bedrock-model needs --use-bedrock.")
    if llm_model and not use_llm:
        raise click.UsageError("--llm-model needs --use-llm.")
    if (player is None) == (given_file is None):
        raise click.UsageError("Name one player: FILE or IMAGE.", click.get_current_context())
    # A bare word names an image, unless it is said to be a file
    target = player if player is not None else str(Path(given_file or "").absolute())
    check_run(run)

    from coworld_client.resources import model_environment
    from coworld_runner.package import to_wire, uploaded_player

    from ..files import secret_files
    from ..run_preparation import read_secrets

    own = uploaded_player(target)
    if own is not None and run:
        raise click.UsageError("--run is for images; how a file runs follows from the file.")
    name = name or (own.series if own is not None else None)
    if name is None:
        raise click.UsageError("Missing option '--name' / '-n'.", click.get_current_context())
    secrets = read_secrets(secret_env, secret_files(secret_env_file), out)
    models = model_environment(bedrock=bedrock_model or use_bedrock, llm=llm_model or use_llm)
    environment = {**models, **secrets.values} or None
    if dry_run:
        return _dry_run(out, connection, target, own, name, run, environment or {}, labels, game, league)
    sent = to_wire(own) if own is not None else target
    if own is not None and own.series != own.name:
        out.note(f"Uploading the checkpoint {clean(own.name)}.")

    async def body(api: CoworldClient, running: Running) -> int:
        # Look up the league before uploading anything
        where = await api.leagues.id_of(league) if league is not None else None
        if own is None:
            running.to_go_on = "Layers already sent are not sent again."
        with shown_images(out) as told:
            made = await api.policies.upload(
                sent, name=name, run=run, secret_env=environment, labels=labels, on_progress=told
            )
        out.say(f"Upload complete: {clean(made.label, one_line=True)}")
        out.say(f"Version id: {clean(made.id, one_line=True)}")
        if made.submit_error:
            out.warn(clean(made.submit_error, one_line=True))
        if where is None:
            out.answer(dump(made))
            out.say(f"Submit it:  {command_line('submit', made.label, '--league', 'LEAGUE')}")
            return exitcodes.OK
        from .policies import submit_version

        return await submit_version(api, out, made.id, where, policy=made.label, also=dump(made))

    return run_api(out, connection, body, changes=True)


def _dry_run(
    out: Output,
    connection: Connection,
    target: str,
    own: OwnPlayer | None,
    name: str,
    run: tuple[str, ...],
    environment: Mapping[str, str],
    labels: Mapping[str, str],
    game: str | None,
    league: str | None,
) -> int:
    """Check what an upload would send, and return the exit status."""
    from coworld_client.resources import check_policy
    from coworld_runner.doctor import Check
    from coworld_runner.evaluation import check_files

    from ..options.play_options import EvaluationOptions
    from .checks import checked_player, show_checks

    check_policy(name, run, environment, labels)
    told = [f"policy {name}", *(f"with the secret {variable}" for variable in sorted(environment))]

    async def body(running: Running) -> int:
        if game is not None:
            played = EvaluationOptions(manifest=game, run=run)
            checks = (await checked_player(played, running, target)).checks
        else:
            checks = check_files(own) if own is not None else ()
        image = () if own is not None else (await _image_check(target),)
        place = (await _league_check(connection, league),) if league is not None else ()
        upload = Check(name="upload", status="ok", message=clean(", ".join(told), one_line=True))
        checks = (upload, *place, *image, *checks)
        ok = all(check.status != "fail" for check in checks)
        listed = show_checks(out, checks)
        out.answer({"ok": ok, "uploaded": False, "name": name, "checks": listed})
        out.note("Nothing was uploaded.")
        return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO

    return run_async(out, body)


async def _league_check(connection: Connection, league: str) -> Check:
    """Check that a platform has a league to submit to."""
    from coworld_core.errors import RemoteError
    from coworld_runner.doctor import Check

    try:
        async with opened_client(connection, anonymous=True) as api:
            found = await api.leagues.get(league)
    except RemoteError as error:
        return Check(name="league", status="fail", message=error.message, hint=error.hint)
    said = f"{found.name} on {api.server}" + (f", of the game {found.game.name}" if found.game.name else "")
    return Check(name="league", status="ok", message=clean(said, one_line=True))


async def _image_check(image: str) -> Check:
    """Check that the local engine has an image that platforms run."""
    from coworld_client.uploads import check_image
    from coworld_core.errors import ImageError
    from coworld_core.text import shown_size
    from coworld_runner.doctor import Check

    try:
        found = await check_image(image)
    except ImageError as error:
        return Check(name="image", status="fail", message=error.message, hint=error.hint)
    return Check(name="image", status="ok", message=f"{image}, {found.platform}, {shown_size(found.size)}")
