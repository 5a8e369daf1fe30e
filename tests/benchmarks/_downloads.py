"""Typical uses of the client, timed from inside; the last line is JSON: seconds, CPU, count, bytes, peak memory."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import anyio
from _measure import peak_mib

from coworld_client import CoworldClient
from coworld_client.transfers.files import each


async def act(options: argparse.Namespace) -> dict[str, float]:
    count = size = 0
    async with CoworldClient.from_login() as api:
        await api.whoami()
        begun, cpu = time.monotonic(), time.process_time()
        match options.what:
            case "list":
                async for _ in api.episodes.list(limit=options.limit):
                    count += 1
            case "files":
                ids = (await anyio.Path(options.ids).read_text()).split()

                async def fetch(episode: str) -> None:
                    await api.episodes.download_replay(episode, Path(options.into) / episode, unpack=False)

                await each(ids, fetch, concurrency=options.at_once)
                count = len(ids)
            case "replay":
                got = await api.episodes.download_replay(options.ids, Path(options.into) / "replay", unpack=False)
                count, size = 1, got.size
            case _:
                pass
        seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "count": count, "size": size, "peak_rss_mib": peak_mib()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["idle", "list", "files", "replay"])
    parser.add_argument("--ids", default="")
    parser.add_argument("--into", default=".")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--limit", type=int)
    print(json.dumps(anyio.run(act, parser.parse_args())))


if __name__ == "__main__":
    main()
