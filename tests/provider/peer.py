#!/usr/bin/env python3
"""An HTTP server that misbehaves, for test_http*.c: the first part of the path says how. It prints
its port, writes each request as a line of JSON to the file it was given, and ends when its standard
input does. Standard library only."""

import json
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse

LINE_MAX = 16 * 1024 * 1024  # QUIPU_SSE_LINE_MAX
NEVER_S = 30  # longer than any timeout of the tests
LATE_S = 0.5
OK = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = OK + "Transfer-Encoding: chunked\r\n\r\n"
CLOSED = OK + "Connection: close\r\n\r\n"

counts = {}
lock = threading.Lock()


def chunk(text=None, finish=None, **more):
    """One event of an OpenAI stream."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "model": "peer", "choices": [choice], **more}
    return f"data: {json.dumps(body)}\n\n"


def stream(text="Hello there"):
    """A whole OpenAI stream."""
    words = text.split(" ")
    events = [chunk(word if i == 0 else f" {word}") for i, word in enumerate(words)]
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    events.append(chunk(finish="stop"))
    events.append(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n")
    return events + ["data: [DONE]\n\n"]


def talk_openai(body):
    """An answer to a talk: a call when a tool is asked for, else words."""
    last = body["messages"][-1]
    usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 9}
    usage["prompt_tokens_details"] = {"cached_tokens": 3}
    if last["role"] == "user" and "tool" in last["content"] and body.get("tools"):
        name = body["tools"][0]["function"]["name"]
        calls = [{"index": 0, "id": f"t{len(body['messages'])}", "type": "function"}]
        calls[0]["function"] = {"name": name, "arguments": ""}
        pieces = [[{"index": 0, "function": {"arguments": a}}] for a in ('{"ci', 'ty":"Oslo"}')]
        deltas = [{"tool_calls": piece} for piece in [calls] + pieces]
        finish = "tool_calls"
    else:
        deltas = [{"content": text} for text in ("You said: ", str(last["content"])[:200], ".")]
        finish = "stop"
    head = {"id": "c1", "model": "peer"}
    events = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({**head, "choices": [], "usage": usage})
    return [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]


def call_openai(body):
    """Calls of tools, by the lines of a user: NAME, or NAME {arguments}. Results are repeated."""
    last = body["messages"][-1]
    if last["role"] != "user":
        return talk_openai(body)
    calls = [line.partition(" ") for line in last["content"].splitlines()]
    calls = [{"index": at, "id": f"t{len(body['messages'])}_{at}", "type": "function",
              "function": {"name": name, "arguments": arguments or "{}"}}
             for at, (name, _, arguments) in enumerate(calls)]
    head = {"id": "c1", "model": "peer"}
    events = [{**head, "choices": [{"index": 0, "delta": {"content": "I look."}}]},
              {**head, "choices": [{"index": 0, "delta": {"tool_calls": calls}}]},
              {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    return [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]


def talk_anthropic(body):
    """The same in Anthropic's events, with a thought that is signed."""
    blocks = body["messages"][-1]["content"]
    texts = [b["text"] for b in blocks if b["type"] == "text"]
    usage = {"input_tokens": 40, "cache_read_input_tokens": 3, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "peer", "usage": usage}
    events = [{"type": "message_start", "message": message}]

    def block(index, start, *deltas):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})

    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    signed = {"type": "signature_delta", "signature": "c2lnbmVk"}
    block(0, thinking, {"type": "thinking_delta", "thinking": "hm"}, signed)
    reason = "end_turn"
    if texts and "tool" in texts[-1] and body.get("tools"):
        use = {"type": "tool_use", "id": f"t{len(body['messages'])}", "input": {}}
        use["name"] = body["tools"][0]["name"]
        pieces = [{"type": "input_json_delta", "partial_json": a} for a in ('{"city":', '"Oslo"}')]
        block(1, use, *pieces)
        reason = "tool_use"
    else:
        said = texts[-1] if texts else "a result"
        block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": f"You said: {said}."})
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}})
    events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def talk_gemini(body):
    """The same in Gemini's events."""
    last = body["contents"][-1]["parts"][-1]
    usage = {"promptTokenCount": 40, "candidatesTokenCount": 9, "totalTokenCount": 49}
    usage["cachedContentTokenCount"] = 3
    if "tool" in last.get("text", "") and body.get("tools"):
        name = body["tools"][0]["functionDeclarations"][0]["name"]
        call = {"id": f"t{len(body['contents'])}", "name": name, "args": {"city": "Oslo"}}
        lists = [[{"functionCall": call, "thoughtSignature": "c2ln"}]]
    else:
        lists = [[{"text": "You said: "}], [{"text": f"{last.get('text', 'a result')}."}]]
    events = [{"candidates": [{"content": {"role": "model", "parts": p}}]} for p in lists]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    events[-1]["usageMetadata"] = usage
    return [f"data: {json.dumps(event)}\n\n" for event in events]


def refusal(path, body):
    """Why Anthropic's API refuses a request; None: it does not."""
    if "/v1/messages" not in path:
        return None
    body = json.loads(body)
    blocks = [b["type"] for m in body["messages"] for b in m["content"] if isinstance(b, dict)]
    if "tool_use" in blocks and not body.get("tools"):
        return {"type": "invalid_request_error", "message": "calls of tools, and no tools"}
    return None


def talk(path, body):
    """What a well-behaved model answers, in the format of the path."""
    body = json.loads(body)
    if "/v1/messages" in path:
        return talk_anthropic(body)
    return talk_gemini(body) if "streamGenerateContent" in path else talk_openai(body)


def answer(status, body, *headers):
    """A response with a length."""
    data = body.encode()
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + data


class Peer(socketserver.StreamRequestHandler):
    """One connection, with as many requests as it brings."""

    def handle(self):
        while self.one():
            pass

    def one(self):
        """Read a request and answer it; False: the connection is done with."""
        first = self.rfile.readline().decode("latin-1").split()
        if len(first) < 2:
            return False
        headers = {}
        for line in iter(self.rfile.readline, b"\r\n"):
            if not line:
                return False
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0))).decode("utf-8", "replace")
        how = first[1].split("/")[1]
        with lock:
            counts[how] = counts.get(how, 0) + 1
            number = counts[how]
            record = {"method": first[0], "path": first[1], "headers": headers, "body": body}
            self.server.log.write(json.dumps(record) + "\n")
            self.server.log.flush()
        self.headers, self.body, self.path = headers, body, first[1]
        return bool(getattr(self, f"do_{how}", self.do_missing)(number))

    def put(self, text):
        self.wfile.write(text.encode() if isinstance(text, str) else text)
        self.wfile.flush()

    def put_chunk(self, text):
        data = text.encode()
        self.put(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def put_stream(self):
        self.put(CHUNKED)
        for event in stream():
            self.put_chunk(event)
        self.put("0\r\n\r\n")
        return True

    def do_missing(self, _):
        self.put(answer("404 Not Found", '{"error":{"message":"no such thing"}}'))
        return True

    def do_ok(self, _):
        return self.put_stream()

    def do_talk(self, _):
        error = refusal(self.path, self.body)
        if error:
            self.put(answer("400 Bad Request", json.dumps({"type": "error", "error": error})))
            return True
        self.put(CHUNKED)
        for event in talk(self.path, self.body):
            self.put_chunk(event)
        self.put("0\r\n\r\n")
        return True

    def do_call(self, _):
        self.put(CHUNKED)
        for event in call_openai(json.loads(self.body)):
            self.put_chunk(event)
        self.put("0\r\n\r\n")
        return True

    def do_watch(self, number):
        if json.loads(self.body)["model"] != "mute":
            return self.do_talk(number)
        return self.do_mute(number)

    def do_one(self, number):
        if not self.path.endswith("/models"):
            return self.do_talk(number)
        self.put(answer("200 OK", '{"object":"list","data":[{"id":"only"}]}'))
        return True

    def do_slow(self, _):
        self.put(CLOSED)
        for at, byte in enumerate("".join(stream()).encode()):
            self.put(bytes([byte]))
            if at % 50 == 0:
                time.sleep(0.005)

    def do_stall(self, _):
        self.put(CHUNKED)
        self.put_chunk(chunk("So"))
        time.sleep(NEVER_S)

    def do_late(self, number):
        """An answer in one piece: nothing comes before all of it is made."""
        time.sleep(LATE_S)
        return self.do_whole(number)

    def do_mute(self, _):
        time.sleep(NEVER_S)

    def do_cut(self, _):
        self.put(CHUNKED)
        self.put_chunk(chunk("So"))

    def do_clean(self, _):
        self.put(CLOSED + chunk("So"))

    def do_gone(self, number):
        return self.put_stream() if number > 2 else False

    def do_garbage(self, _):
        self.put(CLOSED + "\x00\xff}{]\r\r\n::data\ndata: {{{\n\n")

    def do_nohttp(self, _):
        self.put("SSH-2.0-OpenSSH_9.2\r\n")

    def do_huge(self, _):
        self.put(CLOSED + "data: ")
        try:
            for _ in range(LINE_MAX // 65536 + 2):
                self.put("x" * 65536)
        except OSError:
            pass  # it hung up, as it should

    def do_short(self, _):
        self.put(OK + "Content-Length: 100000\r\n\r\n" + "".join(stream()))

    def do_busy(self, number):
        if number > 2:
            return self.put_stream()
        self.put(answer("429 Too Many Requests", '{"error":{"message":"slow"}}', "Retry-After: 0"))
        return True

    def do_busydate(self, number):
        if number > 1:
            return self.put_stream()
        date = "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"
        self.put(answer("503 Service Unavailable", "", date))
        return True

    def do_busylong(self, _):
        body = '{"error":{"message":"come back in an hour","type":"rate_limit_error"}}'
        self.put(answer("429 Too Many Requests", body, "Retry-After: 3600"))
        return True

    def do_pause(self, _):
        self.put(answer("429 Too Many Requests", "", "Retry-After: 60"))
        return True

    def do_down(self, _):
        self.put(answer("503 Service Unavailable", '{"error":{"message":"down"}}'))
        return True

    def do_denied(self, _):
        self.put(answer("401 Unauthorized", '{"error":{"message":"no such key"}}'))
        return True

    def do_bad(self, _):
        said = self.headers.get("authorization", "")
        body = {"error": {"message": f"not with {said}!", "type": "invalid_request_error"}}
        self.put(answer("400 Bad Request", json.dumps(body)))
        return True

    def do_longbad(self, _):
        self.put(answer("400 Bad Request", "x" * 1000000))
        return True

    def do_error(self, _):
        self.put(CHUNKED)
        self.put_chunk(chunk("So"))
        body = {"error": {"message": "lost it", "type": "server_error"}}
        self.put_chunk(f"data: {json.dumps(body)}\n\n")
        self.put("0\r\n\r\n")
        return True

    def do_json(self, _):
        body = '{"error":{"message":"no streams here","type":"invalid_request_error"}}'
        self.put(answer("200 OK", body, "Content-Type: application/json"))
        return True

    def do_jsonlate(self, _):
        body = '\r\n \n{"error":{"message":"not now","type":"overloaded_error"}}'
        self.put(answer("200 OK", body, "Content-Type: application/json"))
        return True

    def do_redirect(self, _):
        self.put(answer("302 Found", "", "Location: /ok/chat/completions"))
        return True

    def do_whole(self, _):
        message = {"role": "assistant", "content": "All at once"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "c1", "model": "peer", "choices": [choice]}
        self.put(answer("200 OK", json.dumps(body)))
        return True

    def do_list(self, _):
        if "pageToken=" in self.path:
            # Decoded as servers do: a token that is not escaped would come back as another one.
            token = urllib.parse.parse_qs(self.path.partition("?")[2])["pageToken"][0]
            body = {"models": [{"name": "models/" + ("g2" if token == "a&b=c+d/%" else "lost")}]}
        elif "/v1beta/models" in self.path:
            body = {"models": [{"name": "models/g1"}], "nextPageToken": "a&b=c+d/%"}
        elif "after_id=b" in self.path:
            body = {"data": [{"id": "c", "display_name": "C"}], "has_more": False}
        elif "/v1/models" in self.path:
            data = [{"id": "a", "display_name": "A"}, {"id": "b", "display_name": "B"}]
            body = {"data": data, "has_more": True, "last_id": "b"}
        else:
            body = {"object": "list", "data": [{"id": "m1", "max_model_len": 4096}, {"id": "m2"}]}
        self.put(answer("200 OK", json.dumps(body)))
        return True

    def do_embed(self, _):
        if "batchEmbedContents" in self.path:
            body = {"embeddings": [{"values": [1, 0.5]}, {"values": [-1, 2e-3]}]}
        else:
            data = [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2.5]}]
            body = {"data": data, "usage": {"prompt_tokens": 4, "total_tokens": 4}}
        self.put(answer("200 OK", json.dumps(body)))
        return True

    def do_meaning(self, number):
        """A vector says which of these words a text has; two that mean the same have one place."""
        if "input" not in json.loads(self.body):
            return self.do_talk(number)
        words = (("puppy", "hound"), ("railway", "locomotive"), ("coffee", "espresso"))
        data = [
            {"index": at, "embedding": [sum(word in text for word in some) for some in words]}
            for at, text in enumerate(json.loads(self.body)["input"])
        ]
        self.put(answer("200 OK", json.dumps({"data": data})))
        return True

    def do_embedbad(self, _):
        self.put(answer("200 OK", '{"data":[{"index":0,"embedding":[1,2]}]}'))
        return True


class Server(socketserver.ThreadingTCPServer):
    """Threads that do not keep the process alive."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is what some tests want


def main():
    server = Server(("127.0.0.1", 0), Peer)
    server.log = open(sys.argv[1], "a", encoding="utf-8")
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
