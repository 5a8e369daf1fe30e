"""The lock under which what one account has is counted."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from .models import User

__all__ = ["lock_account"]


async def lock_account(session: AsyncSession, user_id: str) -> None:
    """Make concurrent requests of one account count each other, until the end of the transaction."""
    await session.execute(sa.select(User.id).where(User.id == user_id).with_for_update(key_share=True))
