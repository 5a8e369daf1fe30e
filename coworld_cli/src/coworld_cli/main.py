"""The entry point: the group of commands, and what becomes of an error.

Nothing is imported here but click, and no command is imported before it is called for, so that ``coworld --help``
is about as quick as ``python -c "import click"``.
"""

from __future__ import annotations

import click

from ._group import CommandTable, LazyGroup

__all__ = ["cli", "main"]

_COMMANDS: CommandTable = {
    "Play": {
        "run-episode": "Play episodes of a Coworld, and keep scores, replay and logs.",
        "scrimmage": "Play one episode with one player in every seat.",
        "play": "Play in the browser: with people, bots or both.",
        "replay": "Show a replay in the browser, until Ctrl-C.",
    },
    "Make": {
        "build": "Build a Coworld's images and write its manifest.",
        "validate": "Check a manifest and list everything that is wrong with it.",
        "certify": "Check in ten steps that a Coworld keeps the runtime contract.",
        "schema": "Print the JSON Schema of a document.",
    },
    "Sign in to a platform": {
        "login": "Sign in with the browser, and keep the token.",
        "logout": "Forget the token and the player sessions of a server.",
        "whoami": "Show who you are to a server.",
        "set-token": "Keep a token that you have.",
        "exchange-code": "Finish a sign-in with the code that the browser showed.",
        "player": "List, make, take on and lay down player identities.",
    },
    "Coworlds of a platform": {
        "list": "List Coworlds.",
        "show": "Show a Coworld.",
        "status": "Show a Coworld and how its hosted episodes went.",
        "next-version": "Print the version that comes next.",
        "download": "Download a Coworld, to play it here.",
        "images": "List container images, or show one.",
        "upload-coworld": "Certify and upload a Coworld, or a change to one.",
        "patch-commissioner": "Give a Coworld another commissioner.",
        "secret": "Keep, list and delete the secrets of a Coworld.",
        "hosted-game": "Play a Coworld on the platform, with people.",
    },
    "Compete": {
        "leagues": "List leagues, or show one.",
        "divisions": "List divisions, or show one.",
        "results": "Show the standings of a league, a division or a round.",
        "rounds": "List rounds, or show one.",
        "memberships": "List the policies that are in leagues.",
        "submissions": "List submissions of policies to leagues.",
        "events": "List what happened in competitions.",
        "upload-policy": "Upload a player image as a version of a policy.",
        "submit": "Submit a policy to a league.",
        "retire-membership": "Take a policy out of its league.",
        "league": "Ask for leagues of a Coworld (for the platform's team).",
    },
    "Episodes of a platform": {
        "episodes": "List episodes, or show one.",
        "episode-stats": "Show the statistics of an episode.",
        "episode-results": "Print the results of an episode.",
        "episode-logs": "List, print and download logs and artifacts.",
        "replays": "List replays, or download them.",
        "replay-open": "Show an episode's replay in the browser.",
        "bundle": "Download everything of an episode in one file.",
        "xp-request": "Have episodes played, watch and fetch them.",
    },
    "Run a platform": {
        "kubernetes": "Make the Job in which a cluster plays an episode.",
    },
    "This machine": {
        "doctor": "Check what this machine, or a cluster, has for Coworlds.",
        "clean": "Find and remove what a killed run left behind.",
        "version": "Print the versions of coworld and of what it runs on.",
    },
}

cli = click.version_option(package_name="coworld-cli", prog_name="coworld")(
    LazyGroup(
        name="coworld",
        table=_COMMANDS,
        package="coworld_cli.commands",
        help="Games as programmable arenas: play, build and certify Coworlds, and compete on a platform.",
        epilog=(
            "Every option can be set in the environment too: COWORLD_<COMMAND>_<OPTION>, for example "
            "COWORLD_RUN_EPISODE_PARALLEL=4.\n\n"
            "Exit status: 0 ok; 1 it ran and the answer is no; 2 usage; 3 this machine lacks something; 4 a server "
            "refused; 5 internal error; 130 interrupted.\n\n"
            'Shell completion: eval "$(_COWORLD_COMPLETE=bash_source coworld)", or zsh_source, or fish_source.'
        ),
        context_settings={
            "help_option_names": ["-h", "--help"],
            "auto_envvar_prefix": "COWORLD",
            "max_content_width": 100,
        },
    )
)


def main(args: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        args: The arguments without the program's name; None: this process's.
    """
    status = cli.run(args)
    if args is None:
        import gc

        # what is loaded ends with the process; to look through all of it for cycles first takes a tenth of a second
        gc.freeze()
    return status
