"""A LangGraph conversation that survives a restart: run it twice with the same file.

python langgraph_agent.py conversation.db "hello"
"""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from quipu.langgraph import QuipuSaver


def answer(state: MessagesState) -> dict[str, Any]:
    """A model's place: it says what it heard."""
    heard = sum(isinstance(one, HumanMessage) for one in state["messages"])
    words = state["messages"][-1].content
    return {"messages": [AIMessage(f"You said: {words}. I have heard {heard} messages of yours.")]}


def main(path: str, words: str) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    with QuipuSaver(path) as saver:
        result = graph.compile(checkpointer=saver).invoke(
            {"messages": [HumanMessage(words)]}, {"configurable": {"thread_id": "talk"}}
        )
    print(result["messages"][-1].content)


if __name__ == "__main__":
    main(*sys.argv[1:3])
