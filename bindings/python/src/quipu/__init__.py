"""A store for conversations of AI agents: sessions that never get slower, dearer or lost.

`Store` waits for its calls, `AsyncStore` is awaited. `quipu.adk` has services for Google's ADK,
`quipu.agents` a session for the OpenAI Agents SDK; each needs its package to be installed.
"""

from ._ask import Question
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
from ._fields import Memory, Session, SessionNew, SessionPatch
from ._messages import to_openai
from ._results import (
    Artifact,
    Change,
    Compared,
    Content,
    Context,
    Copied,
    Erasure,
    Factor,
    FeedPage,
    Imported,
    MemoryProgress,
    MemoryRun,
    MemoryStatus,
    Part,
    Problem,
    Recalled,
    StateEntry,
    Stats,
    Transfer,
    Usage,
    UsageReport,
    UsageRow,
    Verified,
)
from ._store import AsyncStore, BaseStore, Store, encrypt_store
from ._types import Appended, History, Hit, Hits, Message, Page, Role, ToolCall, Window
from ._version import __version__

__all__ = [
    "Appended",
    "Artifact",
    "AsyncStore",
    "BaseStore",
    "Busy",
    "Cancelled",
    "Change",
    "Compared",
    "Conflict",
    "Content",
    "Context",
    "Copied",
    "Corrupt",
    "Erasure",
    "Exists",
    "Expired",
    "Factor",
    "FeedPage",
    "Full",
    "History",
    "Hit",
    "Hits",
    "Imported",
    "InputOutput",
    "Invalid",
    "Limit",
    "Memory",
    "MemoryProgress",
    "MemoryRun",
    "MemoryStatus",
    "Message",
    "Misuse",
    "Newer",
    "NoMemory",
    "NotFound",
    "Page",
    "Part",
    "Problem",
    "Question",
    "QuipuError",
    "Recalled",
    "Role",
    "Session",
    "SessionNew",
    "SessionPatch",
    "StateEntry",
    "Stats",
    "Store",
    "ToolCall",
    "Transfer",
    "Unknown",
    "Unsupported",
    "Usage",
    "UsageReport",
    "UsageRow",
    "Verified",
    "Window",
    "__version__",
    "encrypt_store",
    "to_openai",
]


def _show_as_imported() -> None:
    """Errors, help() and pickle name things as users import them, and what they extend, too."""
    for name in __all__:
        thing = globals()[name]
        for one in getattr(thing, "__mro__", (thing,)):
            if getattr(one, "__module__", "").startswith(f"{__name__}."):
                one.__module__ = __name__


_show_as_imported()
