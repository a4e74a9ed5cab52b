#!/usr/bin/env python3
"""An MCP server on stdin and stdout for test_chat_tools.py, which misbehaves as its argument says.
Standard library only. `echo` returns its arguments; the other arguments are in `main`."""

import json
import os
import pathlib
import signal
import sys
import time

LINE_MAX = 4194304  # APP_MCP_LINE_MAX
HOW = sys.argv[1] if len(sys.argv) > 1 else "good"
HERE = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
CHILL_S = 100  # longer than any deadline of the tests
seen = []  # the messages so far


def put(message):
    """Send a message, or a line as it is."""
    line = message if isinstance(message, str) else json.dumps(message)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tool(name, **more):
    """A tool of a list."""
    return {"name": name, "description": f"is {name}", "inputSchema": {"type": "object"}, **more}


def tools(params):
    """The result of tools/list."""
    if HOW.startswith("many"):
        return {"tools": [tool(f"t{number}") for number in range(int(HOW[4:]))]}
    if HOW == "names":
        return {"tools": [tool("fine"), tool("a.b"), tool("x" * 64), tool("x" * 65), tool("1st"),
                          tool(""), {"name": "bare"}, tool("any", inputSchema={}), 7]}
    if HOW.startswith("bad"):
        return {"tools": [7] * int(HOW[3:])}
    if HOW == "pages":
        page = int(params.get("cursor", "0"))
        more = {} if page == 2 else {"nextCursor": str(page + 1)}
        return {"tools": [tool(f"page{page}")], **more}
    if HOW == "endless":
        return {"tools": [], "nextCursor": "again"}
    if HOW == "notools":
        return {}
    return {"tools": [tool("echo")]}


def text(words, **more):
    """A result of tools/call."""
    return {"content": [{"type": "text", "text": words}], **more}


def call(message):
    """Answer tools/call, or misbehave."""
    arguments = message["params"]["arguments"]
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if HOW == "slow" and arguments.get("slow"):
        time.sleep(4)
    elif HOW == "mute":
        time.sleep(CHILL_S)
    elif HOW == "dies":
        print("it\x1b[31m broke", file=sys.stderr, flush=True)
        sys.exit(7)
    elif HOW == "noise":
        put("not JSON {")
        put("")
        put([1, 2])
        put({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        put({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        put({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {}})
        put({"jsonrpc": "2.0", "id": 999, "result": text("another's")})
        answers = [json.loads(sys.stdin.readline()) for _ in range(2)]
        answer["result"] = text(json.dumps(answers))
        return put(answer)
    elif HOW == "line":
        room = LINE_MAX - len(json.dumps({**answer, "result": text("")})) + int(arguments["more"])
        answer["result"] = text("x" * room)
        return put(answer)
    elif HOW == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    elif HOW == "chatter":
        while True:
            put("{}")
    elif HOW == "refuses":
        answer["error"] = {"code": -32602, "message": "no such city"}
        return put(answer)
    elif HOW == "fails":
        answer["result"] = text("no such city", isError=True)
        return put(answer)
    elif HOW == "size":
        answer["result"] = text("x" * arguments["size"])
        return put(answer)
    elif HOW == "image":
        answer["result"] = {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}
        return put(answer)
    answer["result"] = text(json.dumps({"arguments": arguments, "seen": seen,
                                        "city": os.environ.get("CITY", "")}))
    return put(answer)


def main():
    if HERE:
        HERE.write_text(str(os.getpid()), encoding="utf-8")
    if HOW == "broken":
        sys.exit("no module named weather")
    if HOW == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        seen.append(message.get("method"))
        if message.get("method") == "initialize":
            version = "2030-01-01" if HOW == "newer" else message["params"]["protocolVersion"]
            put({"jsonrpc": "2.0", "id": message["id"], "result": {
                "protocolVersion": version, "capabilities": {"tools": {}},
                "serverInfo": {"name": "test", "version": "1"}}})
        elif message.get("method") == "tools/list":
            put({"jsonrpc": "2.0", "id": message["id"], "result": tools(message["params"])})
        elif message.get("method") == "tools/call":
            call(message)
    while HOW == "stays":
        time.sleep(1)


if __name__ == "__main__":
    main()
