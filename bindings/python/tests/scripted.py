"""A model for ADK that says what its script contains, and what the prompt held."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class ScriptedLlm(BaseLlm):
    """Each turn gives the next part of the script; the prompts are kept."""

    model: str = "scripted"
    script: list[types.Part] = []
    prompts: list[list[str]] = []

    @classmethod
    def of(cls, *script: types.Part) -> ScriptedLlm:
        return cls(script=list(script), prompts=[])

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        texts = [
            part.text
            for content in llm_request.contents
            for part in content.parts or []
            if part.text
        ]
        self.prompts.append(texts)
        part = self.script[(len(self.prompts) - 1) % len(self.script)]
        yield LlmResponse(content=types.Content(role="model", parts=[part.model_copy(deep=True)]))
