"""Labels on a platform: given with an upload or a request, had by episodes, changed by their owner, searched for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.observatory_kit import roster
from support.uploads import manifest_for, upload_image

from coworld_core.records.labels import MAX_LABELS, matches_labels
from observatory.api.leagues import create_league
from observatory.store.models import Division, EpisodeRequest
from observatory.work.new_episodes import add_round

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PLAYER = {"file": "bot.py", "files": {"bot.py": "eA=="}, "command": ["python3", "{}/bot.py"]}
PATTERNS = ["a", "a*", "*", "?", "[ab]", "[!a]*", "[^a]*", "[a-b]?", "a.*", "b%", "*[*]", "", "A", "[z-a]", "ü"]
VALUES = ["a", "ab", "b", "a.x", "axx", "b%", "b_", "x*", "ü", "A"]


class Scene:
    """A Coworld of Ann's, a policy, and callers that need no idempotency keys."""

    def __init__(self, platform: Inside, ann: str, bob: str) -> None:
        self.platform, self.ann, self.bob = platform, ann, bob

    async def set_up(self) -> None:
        """Upload what is played and who plays."""
        image = await upload_image(self.platform, self.ann, "game")
        body = {"manifest": manifest_for(image["id"]), "tags": {"kind": "board"}}
        self.coworld = await self.platform.post("/v2/coworlds/upload", self.ann, body)
        body = {"name": "bot", "player": PLAYER, "tags": {"net": "small"}}
        self.version = await self.platform.post("/stats/policies/files", self.ann, body)

    async def request(self, tags: dict[str, str] | None, episodes: int = 2) -> dict[str, Any]:
        """Request episodes."""
        body: dict[str, Any] = {
            "coworld_id": self.coworld["id"],
            "roster": roster(*["bot"] * self.seats),
            "num_episodes": episodes,
        }
        return await self.platform.post("/v2/experience-requests", self.ann, body | ({"tags": tags} if tags else {}))

    @property
    def seats(self) -> int:
        """The number of seats of the game."""
        return len(self.coworld["manifest"]["variants"][0]["game_config"]["players"])

    async def label(self, kind: str, id: str, token: str | None, /, **tags: str | None) -> Any:
        """Change labels; the answer, or the status of a refusal."""
        answer = await self.platform.ask("PATCH", f"/v2/{kind}/{id}/tags", token, expect=None, json={"tags": tags})
        return answer.json()["tags"] if answer.status_code == 200 else answer.status_code

    async def ids(self, path: str, *tags: str) -> list[str]:
        """Ids of a list's rows."""
        found: Any = await self.platform.get(path, self.ann, tags=list(tags))
        bare = path in ("/v2/coworlds", "/v2/coworlds/summaries")
        rows: list[dict[str, Any]] = found if bare else found["entries"]
        assert bare or found["total_count"] == len(rows)
        return [row["id"] for row in rows]


async def scene_of(platform: Inside) -> Scene:
    scene = Scene(platform, await platform.add_user("ann"), await platform.add_user("bob"))
    await scene.set_up()
    return scene


async def test_labels_are_kept_inherited_changed_and_searched_for(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        scene = await scene_of(platform)
        one, two = await scene.request({"exp": "a", "n": "1"}), await scene.request({"exp": "ab"})
        none = await scene.request(None, 1)
        assert (one["tags"], none["tags"]) == ({"exp": "a", "n": "1"}, {})
        assert [episode["tags"] for episode in one["episodes"]] == [{"exp": "a", "n": "1"}] * 2
        first, second = [episode["id"] for episode in one["episodes"]]

        # What an episode has of its own precedes, and hides
        assert await scene.label("episode-requests", first, scene.ann, exp="b", n=None) == {"exp": "b"}
        assert await scene.label("experience-requests", one["id"], scene.ann, n="2", why="x") == {
            "exp": "a",
            "n": "2",
            "why": "x",
        }
        kept = {
            row["id"]: row["tags"]
            for row in (await scene.platform.get(f"/v2/experience-requests/{one['id']}", scene.ann))["episodes"]
        }
        assert kept == {first: {"exp": "b", "why": "x"}, second: {"exp": "a", "n": "2", "why": "x"}}
        assert (await platform.get(f"/v2/episode-requests/{first}", scene.ann))["tags"] == kept[first]
        assert await scene.label("experience-requests", one["id"], scene.ann, why=None) == {"exp": "a", "n": "2"}

        # Searched for, page by page and by number
        assert await scene.ids("/v2/experience-requests", "exp=a*") == [two["id"], one["id"]]
        assert await scene.ids("/v2/experience-requests", "exp=a", "n") == [one["id"]]
        everything = [episode["id"] for made in (one, two) for episode in made["episodes"]]
        place = "/v2/episode-requests"
        assert set(await scene.ids(place, "exp")) == set(everything)
        assert set(await scene.ids(place, "exp=a*")) == set(everything) - {first}
        assert await scene.ids(place, "exp=b") == [first]
        assert await scene.ids(place, "n=*") == [second]
        assert await scene.ids(f"/v2/experience-requests/{one['id']}/episode-requests", "exp=a") == [second]
        assert await scene.ids(f"/v2/coworlds/{scene.coworld['id']}/episode-requests", "exp=b") == [first]
        assert await scene.ids(f"/v2/policy-versions/{scene.version['id']}/episode-requests", "exp=b") == [first]
        page = await platform.get(place, scene.ann, tags="exp=a*", limit=2)
        assert (len(page["entries"]), page["total_count"]) == (2, 3)
        rest = await platform.get(place, scene.ann, tags="exp=a*", limit=2, cursor=page["next_cursor"])
        assert len(rest["entries"]) == 1

        # Single episodes, policies and Coworlds
        body = {"coworld_id": scene.coworld["id"], "roster": roster(*["bot"] * scene.seats), "tags": {"one": "yes"}}
        single = await platform.post(place, scene.ann, body)
        assert (single["tags"], await scene.ids(place, "one=y*")) == ({"one": "yes"}, [single["id"]])
        assert await scene.label("policy-versions", scene.version["id"], scene.ann, net="big") == {"net": "big"}
        assert await scene.ids("/stats/policy-versions", "net=b*") == [scene.version["id"]]
        assert await scene.ids("/stats/policy-versions", "net=small") == []
        assert (await platform.get("/stats/policy-versions", scene.ann))["entries"][0]["tags"] == {"net": "big"}
        assert scene.coworld["tags"] == {"kind": "board"}
        for path in ("/v2/coworlds", "/v2/coworlds/summaries"):
            assert await scene.ids(path, "kind=board") == [scene.coworld["id"]]
            assert await scene.ids(path, "kind=card") == []
        assert await scene.label("coworlds", scene.coworld["id"], scene.ann, kind=None) == {}
        assert (await platform.get(f"/v2/coworlds/{scene.coworld['id']}"))["tags"] == {}


async def test_only_owners_label(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        scene = await scene_of(platform)
        made = await scene.request({"exp": "a"}, 1)
        things = {
            "episode-requests": made["episodes"][0]["id"],
            "experience-requests": made["id"],
            "policy-versions": scene.version["id"],
        }
        for kind, id in things.items():
            assert await scene.label(kind, id, scene.bob, exp="mine") == 404
            assert await scene.label(kind, id, None, exp="mine") == 401
        assert await scene.label("coworlds", scene.coworld["id"], scene.bob, kind="mine") == 403
        # An episode of a league's round counts as the game's owner's, who did not request it
        async with platform.services.database.writing() as db:
            league = await create_league(db, "ours", coworld=scene.coworld["name"], public=True)
            division = await db.scalar(sa.select(Division.id).where(Division.league_id == league.id))
            assert division is not None
            row = await add_round(db, division, {}, key="none", season=1)
            (await db.get_one(EpisodeRequest, things["episode-requests"])).round_id = row.id
        assert await scene.label("episode-requests", things["episode-requests"], scene.ann, exp="b") == 403
        assert (await platform.get(f"/v2/experience-requests/{made['id']}", scene.ann))["tags"] == {"exp": "a"}


async def test_what_is_no_label_is_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        scene = await scene_of(platform)
        made = await scene.request({"exp": "a"}, 1)
        for wrong in ({"a b": "1"}, {"a": ""}, {"a": "x" * 201}, {"a": "x\ny"}, {"": "x"}, {}):
            await platform.ask(
                "PATCH", f"/v2/experience-requests/{made['id']}/tags", scene.ann, expect=422, json={"tags": wrong}
            )
        body = {"coworld_id": scene.coworld["id"], "roster": roster("bot"), "tags": {"a b": "1"}}
        answer = await platform.ask("POST", "/v2/experience-requests", scene.ann, expect=422, json=body)
        assert "cannot be the name of a label" in answer.text
        for path in ("/v2/episode-requests", "/v2/experience-requests", "/stats/policy-versions", "/v2/coworlds"):
            answer = await platform.ask("GET", path, scene.ann, expect=422, params={"tags": "a b=1"})
            assert "cannot be the name of a label" in answer.text
        # So many, and no more; what is refused changes nothing
        many: dict[str, str | None] = {f"n{number}": "x" for number in range(MAX_LABELS - 1)}
        assert len(await scene.label("experience-requests", made["id"], scene.ann, **many)) == MAX_LABELS
        assert await scene.label("experience-requests", made["id"], scene.ann, more="x") == 422
        assert await scene.label("experience-requests", made["id"], scene.ann, n1=None, more="x")
        assert await scene.ids("/v2/experience-requests", "more", "exp=a") == [made["id"]]


async def test_patterns_mean_the_same_as_on_this_machine(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        scene = await scene_of(platform)
        named = {(await scene.request({"exp": value}, 1))["id"]: value for value in VALUES}
        for pattern in PATTERNS:
            found = {named[id] for id in await scene.ids("/v2/experience-requests", f"exp={pattern}")}
            assert found == {value for value in VALUES if matches_labels({"exp": value}, {"exp": pattern})}, pattern
