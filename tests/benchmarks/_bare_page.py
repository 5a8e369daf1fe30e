"""A minimal server of 50 database rows over HTTP with FastAPI and SQLAlchemy: a floor for the Observatory."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import create_async_engine

engine = create_async_engine(f"sqlite+aiosqlite:///{sys.argv[1]}")
COLUMNS = ("id", "user_id", "league_id", "division_id", "coworld_id", "status", "seed", "created_at", "completed_at")
NEWEST = sa.text(f"SELECT {', '.join(COLUMNS)} FROM episode_requests ORDER BY created_at DESC, id DESC LIMIT 50")


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.get("/rows")
async def rows() -> JSONResponse:
    """The 50 newest rows."""
    async with engine.connect() as connection:
        found: Any = (await connection.execute(NEWEST)).mappings().all()
    return JSONResponse({"entries": [dict(row) for row in found]})


with socket.create_server(("127.0.0.1", 0)) as listener:
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])
