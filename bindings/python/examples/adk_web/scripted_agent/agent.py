"""An agent whose model needs no network: it says back what it heard, and how often it was asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class EchoLlm(BaseLlm):
    """A model that answers from the prompt alone."""

    model: str = "echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        asked = [
            part.text
            for content in llm_request.contents
            if content.role == "user"
            for part in content.parts or []
            if part.text
        ]
        words = f"You said: {asked[-1]}. I have heard {len(asked)} messages of yours."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=words)]))


root_agent = LlmAgent(name="scripted_agent", model=EchoLlm(), instruction="Say it back.")
