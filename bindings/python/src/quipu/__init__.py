"""A store for conversations of AI agents: sessions that never get slower, dearer or lost.

`Store` waits for its calls, `AsyncStore` is awaited. `quipu.adk` has services for Google's ADK,
`quipu.agents` a session for the OpenAI Agents SDK; each needs its package to be installed.
"""

from ._errors import (
    Busy,
    Cancelled,
    Conflict,
    Corrupt,
    Exists,
    Expired,
    Full,
    InputOutput,
    Invalid,
    Limit,
    Misuse,
    Newer,
    NoMemory,
    NotFound,
    QuipuError,
    Unknown,
    Unsupported,
)
from ._fields import Session, SessionNew, SessionPatch
from ._messages import to_openai
from ._store import AsyncStore, BaseStore, Store
from ._types import Appended, History, Hit, Hits, Message, Page, Recalled, Role, ToolCall, Window
from ._version import __version__

__all__ = [
    "Appended",
    "AsyncStore",
    "BaseStore",
    "Busy",
    "Cancelled",
    "Conflict",
    "Corrupt",
    "Exists",
    "Expired",
    "Full",
    "History",
    "Hit",
    "Hits",
    "InputOutput",
    "Invalid",
    "Limit",
    "Message",
    "Misuse",
    "Newer",
    "NoMemory",
    "NotFound",
    "Page",
    "QuipuError",
    "Recalled",
    "Role",
    "Session",
    "SessionNew",
    "SessionPatch",
    "Store",
    "ToolCall",
    "Unknown",
    "Unsupported",
    "Window",
    "__version__",
    "to_openai",
]

# Errors, help() and pickle name things as users import them.
for _name in __all__:
    if hasattr(globals()[_name], "__module__"):
        globals()[_name].__module__ = __name__
del _name
