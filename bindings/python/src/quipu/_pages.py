"""Lists of sessions that are longer than a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _requests
from ._steps import Step

if TYPE_CHECKING:
    from ._fields import Session

PAGE = 1000


def every(app: str, user: str | None = None) -> Step[list[Session]]:
    """All sessions of an app, newest change first. They are read oldest change first: one that
    changes meanwhile moves behind the cursor and is met again; the other way it would be missed."""
    found: dict[str, Session] = {}
    after: str | None = None
    while True:
        page = yield _requests.list_(
            app_name=app, user_id=user, after=after, limit=PAGE, oldest_first=True
        )
        for one in page.sessions:
            found.pop(one.key, None)
            found[one.key] = one
        after = page.next
        if not after:
            return list(reversed(found.values()))
