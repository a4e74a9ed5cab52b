"""An agent for `adk web` and `adk api_server`."""

from . import agent as agent
