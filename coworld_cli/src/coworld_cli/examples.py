"""Examples of every command, for its help: at least two each, in the order in which a person would try them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["examples_of"]

_EXAMPLES = """
coworld demo
coworld demo -o my-arena
coworld run examples/paintarena
coworld run examples/nim --player ./bot.py --player counter
coworld run examples/paintarena my-player:latest --run python --run -m --run my_player
coworld run examples/paintarena sweep-painter frontier-painter -n 20 --parallel 4
coworld run examples/nim --set sticks=5 --variant '*'
coworld run examples/nim counter -n 4000 --store s3://arena/counter --namespace arena
coworld play examples/paintarena
coworld play examples/paintarena --human 0
coworld replay
coworld replay examples/paintarena examples/paintarena/results/latest
coworld replay examples/paintarena --html game.html
coworld replay examples/paintarena -o game.gif
coworld replay examples/paintarena/results --show
coworld replay examples/paintarena episode.zip
coworld attach s3://arena/night night
coworld attach s3://arena/night night --json
coworld pull s3://arena/night night
coworld pull /mnt/shared/night night
coworld runs list
coworld runs list --game nim --label exp=a --since 7d
coworld runs list --episodes --player counter --fault '*'
coworld runs list --store s3://arena
coworld runs show latest
coworld runs show results/latest/3
coworld runs query "SELECT name, avg(score) FROM seats GROUP BY name"
coworld runs query "SELECT seat, count(*) FROM turns GROUP BY seat" --parquet exported
coworld runs label latest exp=b
coworld runs label results/latest/3 note=odd exp=
coworld runs rm latest
coworld runs rm results/20261126-101500-a1b2c3 --yes
coworld runs export exported
coworld runs export exported --label exp=a --table turns --overwrite
coworld runs verify --game nim
coworld runs verify --root results --since 7d
coworld stop latest
coworld stop results/20261126-101500-a1b2c3 --hard
coworld stop s3://arena/night --namespace arena
coworld stop ereq_00000000-0000-4000-8000-000000000001
coworld bundle latest -o episode.zip
coworld bundle examples/paintarena/results/latest --include results --include replay
coworld bundle results/latest/3 --slot 0
coworld verify results/latest
coworld verify episode.zip examples/nim
coworld verify results/latest/3 --key ada.pub --json
coworld fork latest --at 12 --seat 0 ./bot.py
coworld fork results/latest/3 --at 40 --times 200 -o continued
coworld registry publish bot ./bot.py --tag champion
coworld registry publish bot my-player:latest --run python --run -m --run my_player --meta steps=5000
coworld registry list
coworld registry list bot --json
coworld registry show bot:champion
coworld registry show bot:v3
coworld registry tag bot:v3 champion
coworld registry tag bot:v3 champion --expected v2
coworld registry updates bot
coworld registry updates bot --after v3 --count 1 --json
coworld registry fetch bot:v3 -o copy
coworld registry fetch bot -o newest
coworld registry remove bot:v1
coworld registry remove bot
coworld check ./bot.py -m examples/nim
coworld check ./bot -m examples/paintarena --steps 10 --json
coworld compare frontier-painter sweep-painter -m examples/paintarena --variant quick
coworld compare ./new.py ./old.py -m examples/nim
coworld compare ./new.py ./old.py -m examples/nim --plan
coworld compare bot:latest bot:champion -m examples/nim
coworld compare my-player:2 my-player:1 -m examples/paintarena --require better --markdown
coworld gate ./bot.py -m examples/nim
coworld gate ./bot.py --watch
coworld gate ./bot.py --accept
coworld bots
coworld bots ./bots --html bots.html
coworld rank frontier-painter sweep-painter -m examples/paintarena --variant quick
coworld rank counter random-taker ./bot.py -m examples/nim -o ranking
coworld scrimmage frontier-painter -m examples/paintarena
coworld scrimmage frontier-painter -m examples/paintarena -n 50 --parallel 4
coworld mix -m examples/paintarena --player frontier-painter,proportion=3 --player sweep-painter -n 50
coworld mix -m examples/nim --player ./bot.py --player counter -n 20 --json
coworld pickup my-player:2 -m examples/paintarena --pool frontier-painter --pool sweep-painter -n 60
coworld pickup ./bot.py -m examples/nim --pool counter --pool random-taker -n 40
coworld improve ./bot.py -m examples/nim --with ./optimizer.py
coworld improve ./bot.py -m examples/paintarena --with "claude -p 'Improve this player.'" --budget 10,2h
coworld evaluation diagnose ./bot.py -m examples/paintarena --baseline sweep-painter --strong frontier-painter
coworld evaluation diagnose ./bot.py -m examples/nim --compare results/latest --max-blocks 20
coworld evaluation replay results/latest block-0007.1-2
coworld evaluation replay league block-0031.1-1 -m examples/nim
coworld evaluation report results/latest
coworld evaluation report monday tuesday --html report.html
coworld grade results/latest
coworld grade results/latest --grader ./grader.py --parallel 4
coworld report-episode results/latest/3 --reporter ./reporter.py
coworld report-episode results/latest/1 results/latest/2 --reporter ghcr.io/ada/reporter:1
coworld diagnose-episode results/latest --player frontier-painter
coworld diagnose-episode results/latest/3 --player 0 --diagnoser ./diagnoser.py
coworld suite run suite.toml --player ./mine.py -o results
coworld suite run suite.toml --player ./mine.py --player counter -m examples/nim
coworld suite run suite.toml --player ./mine.py --store s3://arena/suite --namespace arena
coworld suite show results
coworld suite show results --html suite.html
coworld tournament init league -m examples/nim --pairing swiss
coworld tournament init league -m examples/paintarena --variant quick --pairing double-elimination
coworld tournament init league -m examples/paintarena --commissioner two-divisions --rounds 3
coworld tournament add league ./mine.py
coworld tournament add league counter --name house
coworld tournament withdraw league house
coworld tournament withdraw league house --json
coworld tournament run league
coworld tournament run league --parallel 4
coworld tournament standings league
coworld tournament standings league --rating mean
coworld tournament show league
coworld tournament show league --markdown
coworld tournament export league site
coworld tournament export league site --json
coworld tournament serve league
coworld tournament serve league --port 8080
coworld tournament verify league
coworld tournament verify league --sample 100 --play-again
coworld init game count-up
coworld init game count-up games/count-up
coworld init player bot.py
coworld init player bot.py --for examples/nim
coworld init player bot.mjs
coworld init grader
coworld init grader close.py --for examples/nim
coworld init reporter
coworld init reporter page.py --for examples/paintarena
coworld init diagnoser
coworld init diagnoser count-up --declare
coworld init optimizer
coworld init optimizer better.py --for examples/nim
coworld dev count-up
coworld dev --player human --player ./bot.py
coworld game serve nim.py --config '{"sticks": 9}'
coworld game serve count-up --port 8080
coworld game serve count-up --host 0.0.0.0 --port 8443 --announce games.example --tls-cert cert.pem --tls-key key.pem
coworld game join 'http://127.0.0.1:8080/client/player?slot=0&token=TOKEN' ./bot.py
coworld game join 'ws://127.0.0.1:8080/player?slot=1&token=TOKEN' bot:act
coworld game join 'http://127.0.0.1:8080/client/player?slot=0&token=TOKEN' --mcp
coworld game update count-up
coworld game update count-up --dry-run
coworld game wrap openspiel:hanabi -o hanabi
coworld game wrap pettingzoo:connect_four_v3 -o connect-four
coworld game wrap --list pettingzoo
coworld build examples/paintarena
coworld build examples/paintarena --version 1.2.0 --platform linux/amd64
coworld build compose.yaml coworld_manifest_template.json 1.2.0 coworld_manifest.json
coworld validate examples/paintarena
coworld validate coworld_manifest.json --strict --for 0.1.26
coworld validate coworld_manifest.json --fix
coworld certify examples/paintarena
coworld certify examples/paintarena --backend process -o certified
coworld certify examples/paintarena --sign-with ~/.coworld-key --authority "Ada, for the league"
coworld certificate verify certified
coworld certificate verify certified/certificate.json examples/paintarena --key ada.pub
coworld certificate keygen ~/.coworld-key
coworld certificate keygen ci-key --json
coworld mcp --root games
coworld mcp --root games --http --port 8765
coworld schema manifest
coworld schema episode-request -o episode_request.schema.json
coworld login
coworld login --server http://127.0.0.1:8787 --no-browser
coworld logout
coworld logout --server http://127.0.0.1:8787
coworld whoami
coworld whoami --as-user --json
coworld set-token --server http://127.0.0.1:8787 < token.txt
coworld set-token --file token.txt
coworld exchange-code
coworld exchange-code CODE --server http://127.0.0.1:8787
coworld delete-account
coworld delete-account --name ann
coworld token list
coworld token list --json
coworld token create laptop --days 90
coworld token create ci --json
coworld token revoke TOKEN_ID
coworld token revoke TOKEN_ID --server http://127.0.0.1:8787
coworld webhook list
coworld webhook list --json
coworld webhook create https://example.org/hook
coworld webhook create https://example.org/hook --json
coworld webhook delete hook_ID
coworld webhook delete hook_ID --server http://127.0.0.1:8787
coworld team list
coworld team list --json
coworld team create red
coworld team create 'Red team' --server http://127.0.0.1:8787
coworld team invite red
coworld team invite red --days 3
coworld team join http://127.0.0.1:8787/teams/join/CODE
coworld team join CODE --json
coworld team leave red
coworld team leave red ann
coworld team leave red --entries retire
coworld player list
coworld player list --json
coworld player create 'Red team'
coworld player create blue --json
coworld player use NAME
coworld player use PLY_ID --server http://127.0.0.1:8787
coworld player unset
coworld player unset --server http://127.0.0.1:8787
coworld list
coworld list --all --jsonl
coworld show COW_ID
coworld show COW_ID --json
coworld status NAME
coworld status COW_ID --wait-hosted-smoke
coworld next-version paintarena
coworld next-version paintarena --json
coworld download paintarena
coworld download COW_ID -o games --no-images
coworld images
coworld images IMG_ID
coworld upload-coworld examples/paintarena
coworld upload-coworld --from-coworld paint-arena --image game=paintarena:new --version 1.2.1
coworld patch-commissioner paintarena commissioner:latest
coworld patch-commissioner paintarena IMG_ID --version 1.3.0
coworld secret put paintarena API_KEY key.txt
coworld secret put paintarena API_KEY - < key.txt
coworld secret list paintarena
coworld secret list paintarena --json
coworld secret delete paintarena API_KEY
coworld secret delete paintarena API_KEY --server http://127.0.0.1:8787
coworld hosted-game create NAME
coworld hosted-game create COW_ID --variant default --no-spectators
coworld hosted-game join SESSION_ID
coworld hosted-game join SESSION_ID --json
coworld lobby create LEAGUE
coworld lobby create LEAGUE --num-players 3 --seat 1:human_open --seat 2:random
coworld lobby get LBY_ID
coworld lobby get LBY_ID --json
coworld lobby start LBY_ID
coworld lobby start LBY_ID --revision 3
coworld lobby seat LBY_ID 1:human_open
coworld lobby seat LBY_ID 2:league_player:PLY_ID
coworld lobby claim LBY_ID 1
coworld lobby claim LBY_ID 1 --as-user
coworld lobby remove LBY_ID 1
coworld lobby remove LBY_ID 1 --json
coworld lobby leave LBY_ID
coworld lobby leave LBY_ID --json
coworld lobby cancel LBY_ID
coworld lobby cancel LBY_ID --json
coworld lobby end LBY_ID
coworld lobby end LBY_ID --json
coworld leagues
coworld leagues LEAGUE
coworld season-results paint --json
coworld season-results paint 2 -o season-2.csv
coworld season-results LEAGUE_ID 2 -o season-2.parquet
coworld divisions --league LEAGUE
coworld divisions LEAGUE/DIVISION
coworld results LEAGUE
coworld results DIV_ID --include-recent-rounds 5
coworld rounds --league LEAGUE --division DIVISION
coworld rounds ROUND_ID
coworld memberships --mine
coworld memberships --league LEAGUE --champions-only
coworld submissions --mine
coworld submissions --league LEAGUE --json
coworld events --league LEAGUE
coworld events --policy my-player:v3 --all --jsonl
coworld upload-policy ./bot.py --dry-run -m examples/nim
coworld upload-policy ./bot.py --league LEAGUE
coworld upload-policy my-player:latest --name my-player --run python --run my_player.py
coworld upload-policy my-player:2 --name my-player --secret-env API_KEY
coworld policies list --label net=big
coworld policies list bot --limit 3 --json
coworld policies download bot:v3 -o bot-v3
coworld policies download bot -o newest --json
coworld submit my-player --league LEAGUE
coworld submit my-player:v3 --league LEAGUE --auto-champion never
coworld champion my-player --league LEAGUE
coworld champion LPM_ID
coworld retire-membership POLICY --league LEAGUE
coworld retire-membership LPM_ID --reason 'a newer one plays'
coworld league create paintarena
coworld league create paintarena --set rounds_per_day=4
coworld league officers 'Spring course'
coworld league officers 'Spring course' --json
coworld league appoint 'Spring course' ann organiser --elevated
coworld league appoint 'Spring course' bob assistant
coworld league list
coworld league list --json
coworld episodes --mine --with-replay
coworld episodes EREQ_ID
coworld episodes --label 'exp=a*'
coworld episodes --local --status running
coworld episodes --local --watch --label exp=a
coworld episode-stats EREQ_ID
coworld episode-stats EREQ_ID --json
coworld episode-results EREQ_ID
coworld episode-results EREQ_ID -o results.json
coworld episode-logs EREQ_ID
coworld episode-logs EREQ_ID --game
coworld episode-logs EREQ_ID --agent 0
coworld episode-logs EREQ_ID --mine -d logs
coworld episode-logs EREQ_ID --artifact --agent 0
coworld replays --mine
coworld replays --round ROUND_ID --download-dir replays
coworld replay-open EREQ_ID
coworld replay-open EREQ_ID --hosted
coworld episode-bundle EREQ_ID
coworld episode-bundle EREQ_ID --include results --include replay -o evidence.zip
coworld label XREQ_ID exp=b
coworld label my-player:v3 net=big draft=
coworld xp-request create request.json
coworld xp-request create request.json --wait
coworld xp-request create request.json --label exp=a
coworld xp-request list
coworld xp-request list --json
coworld xp-request list --label exp=a
coworld xp-request get XREQ_ID
coworld xp-request get XREQ_ID --json
coworld xp-request episodes XREQ_ID
coworld xp-request episodes XREQ_ID --json
coworld xp-request cancel XREQ_ID
coworld xp-request cancel XREQ_ID --json
coworld xp-request watch XREQ_ID
coworld xp-request watch EREQ_ID --timeout 600 --checkpoint watched.json
coworld xp-request download XREQ_ID
coworld xp-request download XREQ_ID --include replay -d replays
coworld kubernetes job request.json --output-url https://store/episodes/1 | kubectl apply -f -
coworld kubernetes job my-game --variant duel --output-claim episodes | kubectl apply -f -
coworld docs
coworld docs write-a-player
coworld docs --search forfeit
coworld docs --all
coworld doctor
coworld doctor --backend kubernetes --namespace games
coworld clean
coworld clean --yes
coworld version
coworld version --json
"""


def examples_of(path: Sequence[str]) -> list[str]:
    """The examples of a command.

    Args:
        path: Its words, `coworld` first.
    """
    return [line for line in _EXAMPLES.split("\n") if line and line.split()[: len(path)] == list(path)]
