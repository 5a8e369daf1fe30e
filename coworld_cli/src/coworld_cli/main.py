"""The entry point: the group of commands, and the handling of errors.

Only click is imported here, and a command is imported only when it is called, so that `coworld --help` is about as
quick as `python -c "import click"`.
"""

from __future__ import annotations

import click

from ._group import CommandTable, LazyGroup

__all__ = ["cli", "main"]

_COMMANDS: CommandTable = {
    "Play": {
        "demo": ("scaffolds", "Play the sample world, and see its replay."),
        "run": ("episodes", "Play episodes of a Coworld, and keep scores, replay and logs."),
        "play": ("episodes", "Play in the browser or terminal: people, bots or both."),
        "replay": ("replays", "Show a replay in the browser or terminal, or film it."),
    },
    "Measure": {
        "check": ("checks", "Check a player before you upload it."),
        "compare": ("comparisons", "Find out whether one player is better than another."),
        "gate": ("gates", "Accept a new version of a bot if it is better."),
        "bots": ("gates", "Show the bots of a folder: ratings, losses, worst games."),
        "rank": ("comparisons", "Rank several players."),
        "scrimmage": ("measurements", "Measure a player that plays itself in every seat."),
        "mix": ("measurements", "Measure players that share the seats."),
        "pickup": ("measurements", "Measure what a player adds beyond the players it replaces."),
        "suite": ("suites", "Measure players in a suite of variants and line-ups."),
        "tournament": ("tournaments", "Play a tournament in a folder."),
        "improve": ("improvements", "Let a program improve a player, step by step."),
        "registry": ("registries", "Publish players under names, in numbered versions."),
        "evaluation": ("evaluations", "Diagnose a player, and report what was measured."),
        "grade": ("roles", "Grade episodes."),
        "report-episode": ("roles", "Write a report about one or more episodes."),
        "diagnose-episode": ("roles", "Say what a player did well and badly in an episode."),
    },
    "Make": {
        "init": ("scaffolds", "Start a new game, a new player, or a supporting role."),
        "dev": ("development", "Work on the game in DIR while it plays in the browser."),
        "validate": ("packages", "Check a manifest and list everything that is wrong with it."),
        "build": ("packages", "Build a Coworld's images and write its manifest."),
        "certify": ("packages", "Check step by step that a Coworld follows the runtime contract."),
        "certificate": ("certificates", "Verify certificates, and make keys that sign them."),
        "game": ("development", "Serve, join, update or wrap a game."),
        "mcp": ("agents", "Offer what is in a folder as tools to agents."),
        "schema": ("packages", "Print the JSON Schema of a document."),
        "kubernetes": ("clusters", "Make the Job in which a cluster plays an episode."),
    },
    "Help": {
        "docs": ("documentation", "Read the documentation, without a network."),
        "doctor": ("machine", "Check what this machine, or a cluster, has for Coworlds."),
        "clean": ("machine", "Find and remove what a killed run left behind."),
        "version": ("machine", "Print the versions of coworld and of what it runs on."),
    },
    "Sign in": {
        "login": ("accounts", "Sign in with the browser, and save the token."),
        "whoami": ("accounts", "Show your account on a server."),
        "logout": ("accounts", "Forget the token and the player sessions of a server."),
        "player": ("players", "List, create and switch player identities."),
        "token": ("tokens", "List, make and revoke your tokens on a server."),
        "team": ("teams", "Own policies and entries together, as a team."),
        "webhook": ("webhooks", "Have an address told of what happens to your policies."),
        "set-token": ("accounts", "Save a token that you have."),
        "delete-account": ("accounts", "Say what deleting your account would do, or delete it."),
        "exchange-code": ("accounts", "Finish a sign-in with the code that the browser showed."),
    },
    "Coworlds": {
        "list": ("coworlds", "List Coworlds."),
        "download": ("coworlds", "Download a Coworld, to play it here."),
        "upload-coworld": ("uploads", "Certify and upload a Coworld, or a change to one."),
        "show": ("coworlds", "Show what a Coworld has."),
        "status": ("coworlds", "Show a Coworld and how its hosted episodes went."),
        "hosted-game": ("coworlds", "Play a Coworld on the platform, with people."),
        "next-version": ("coworlds", "Print the version that comes next."),
        "images": ("coworlds", "List container images, or show one."),
        "patch-commissioner": ("uploads", "Give a Coworld another commissioner."),
        "secret": ("coworlds", "Store, list and delete the secrets of a Coworld."),
    },
    "Compete": {
        "upload-policy": ("uploads", "Upload a player as a version of a policy."),
        "policies": ("policies", "List your policies, and download their files."),
        "submit": ("policies", "Submit a policy to a league."),
        "leagues": ("leagues", "List leagues, or show one."),
        "results": ("leagues", "Show the standings of a league, a division or a round."),
        "season-results": ("leagues", "Show a season of a league, or write it into a file."),
        "lobby": ("lobbies", "Play a league's game, with people and policies."),
        "divisions": ("leagues", "List divisions, or show one."),
        "rounds": ("leagues", "List rounds, or show one."),
        "memberships": ("policies", "List the policies that are in leagues."),
        "submissions": ("policies", "List submissions of policies to leagues."),
        "events": ("leagues", "List what happened in competitions."),
        "champion": ("policies", "Nominate one of your policies in a league as your champion."),
        "retire-membership": ("policies", "Take a policy out of its league."),
        "league": ("leagues", "Request leagues for a Coworld (for the platform's team)."),
    },
    "Episodes": {
        "runs": ("local_runs", "List, query, verify, label and export what was played here."),
        "attach": ("stores", "Follow a measurement that was detached, and show its result."),
        "pull": ("stores", "Bring what was played so far into a directory."),
        "bundle": ("bundles", "Pack what an episode has left into one file."),
        "verify": ("verifications", "Verify that a run is what its record says."),
        "fork": ("forks", "Continue an episode another way, from a tick."),
        "episodes": ("episode_requests", "List episodes, or show one."),
        "stop": ("episode_control", "Stop a run here or on a cluster, or cancel one on a platform."),
        "replays": ("replays", "List replays, or download them."),
        "replay-open": ("replays", "Show an episode's replay in the browser."),
        "xp-request": ("experience_requests", "Request episodes, watch and download them."),
        "episode-logs": ("episode_requests", "List, print and download logs and artifacts."),
        "episode-results": ("episode_requests", "Print the results of an episode."),
        "episode-stats": ("episode_requests", "Show the statistics of an episode."),
        "episode-bundle": ("episode_requests", "Download everything about an episode as one file."),
        "label": ("labels", "Label what is yours on a platform."),
    },
}
"""Within a section, the names that the short help shows first come first."""

_FIRST_HOUR = ("demo", "run", "play", "replay", "init", "compare", "docs", "doctor")

cli = click.version_option(package_name="coworld-cli", prog_name="coworld")(
    LazyGroup(
        name="coworld",
        table=_COMMANDS,
        package="coworld_cli.commands",
        aliases={"run-episode": "run", "optimize": "improve"},
        first=_FIRST_HOUR,
        help="Games as programmable arenas: play, measure players, make games, compete.",
        epilog=(
            "Every option can be set in the environment too: COWORLD_<COMMAND>_<OPTION>, for example "
            "COWORLD_RUN_PARALLEL=4.\n\n"
            "Exit status: 0 ok; 1 it ran and the answer is no; 2 usage; 3 this machine lacks something; 4 a server "
            "refused (verify: cannot be played again); 5 internal error; 130 interrupted.\n\n"
            'Shell completion: eval "$(_COWORLD_COMPLETE=bash_source coworld)", or zsh_source, or fish_source.'
        ),
        context_settings={
            "help_option_names": ["-h", "--help"],
            "auto_envvar_prefix": "COWORLD",
            # Longer lines are hard to read
            "max_content_width": 140,
        },
    )
)


def main(args: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        args: The arguments without the program's name; None: those of this process.
    """
    if args is not None:
        return cli.run(args)
    import gc

    # Imported modules stay: searching them for reference cycles again and again would take a tenth of the start-up
    # time, and the interpreter's last search at the end, which a freeze avoids, another tenth of a second.
    gc.set_threshold(50_000, 20, 20)
    status = cli.run(None)
    gc.freeze()
    return status
