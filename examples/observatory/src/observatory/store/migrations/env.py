"""Runs alembic's migrations on the connection that `Database.upgrade` passes."""

from __future__ import annotations

from typing import cast

import sqlalchemy as sa
from alembic import context

from observatory.store.models import Base

_connection = cast("sa.Connection | None", context.config.attributes.get("connection"))
if _connection is None:
    raise SystemExit("The tables are upgraded by `observatory serve`, not by alembic alone.")
context.configure(
    connection=_connection,
    target_metadata=Base.metadata,
    compare_type=True,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
