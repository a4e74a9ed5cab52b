#!/usr/bin/env python3
"""A small real sentence model (all-MiniLM-L6-v2) behind OpenAI's embeddings call, on loopback:
prints its address and stays until its standard input ends. The model is computed here, in numpy,
from the weights that its package carries. Run by tools/test_llm.py with the Python of its own
environment."""

import argparse
import http.server
import json
import pathlib
import sys
import threading

import numpy
import tokenizers

HEADS = 12
TOKENS_MAX = 256  # what the model was trained for: longer texts are cut
EPSILON = 1e-12
BATCH = 32  # texts that are computed at a time


def weights(path):
    """The tensors of a safetensors file: a length, a JSON header, then their bytes."""
    data = memoryview(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, about in json.loads(bytes(data[8:start])).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            first, last = about["data_offsets"]
            values = numpy.frombuffer(data[start + first : start + last], dtype="<f4")
            tensors[name] = values.reshape(about["shape"])
    return tensors


def gelu(x):
    """With the error function by Abramowitz and Stegun 7.1.26, whose error is below 2e-7."""
    z = numpy.abs(x) / numpy.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = 1.061405429 * t - 1.453152027
    for factor in (1.421413741, -0.284496736, 0.254829592):
        poly = poly * t + factor
    erf = 1.0 - poly * t * numpy.exp(-z * z)
    return 0.5 * x * (1.0 + numpy.sign(x) * erf)


class Model:
    """BERT with six layers; a text's vector is the mean of its tokens'."""

    def __init__(self, folder):
        self.tensors = weights(folder / "model.safetensors")
        self.layers = 1 + max(
            int(name.split(".")[2]) for name in self.tensors if name.startswith("encoder.layer.")
        )
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(TOKENS_MAX)
        self.tokenizer.enable_padding()

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return scaled * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def attend(self, x, mask, layer):
        """Self-attention; tokens that only fill up a shorter text get no weight."""
        texts, tokens, width = x.shape
        query, key, value = (
            self.linear(x, f"{layer}.attention.self.{which}")
            .reshape(texts, tokens, HEADS, width // HEADS)
            .transpose(0, 2, 1, 3)
            for which in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / numpy.sqrt(width // HEADS)
        scores = numpy.where(mask[:, None, None, :], scores, -1e9)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        return mixed.transpose(0, 2, 1, 3).reshape(texts, tokens, width)

    def batch(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = numpy.array([one.ids for one in encoded])
        mask = numpy.array([one.attention_mask for one in encoded]) == 1
        table = self.tensors
        x = table["embeddings.word_embeddings.weight"][ids]
        x = x + table["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + table["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for number in range(self.layers):
            layer = f"encoder.layer.{number}"
            mixed = self.linear(self.attend(x, mask, layer), f"{layer}.attention.output.dense")
            x = self.norm(x + mixed, f"{layer}.attention.output.LayerNorm")
            wide = gelu(self.linear(x, f"{layer}.intermediate.dense"))
            wide = self.linear(wide, f"{layer}.output.dense")
            x = self.norm(x + wide, f"{layer}.output.LayerNorm")
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def embed(self, texts):
        """A vector for each text. Texts of like length are computed together."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        vectors = [None] * len(texts)
        for first in range(0, len(order), BATCH):
            some = order[first : first + BATCH]
            for at, vector in zip(some, self.batch([texts[at] for at in some])):
                vectors[at] = vector
        return numpy.array(vectors)


def handler(model):
    """OpenAI's call for embeddings, and nothing else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            data = [
                {"object": "embedding", "index": at, "embedding": [float(v) for v in vector]}
                for at, vector in enumerate(model.embed(texts))
            ]
            answer = json.dumps({"object": "list", "data": data, "model": body["model"]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path, help="the folder of the model")
    args = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(Model(args.model)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"ADDRESS http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
