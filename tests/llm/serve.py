#!/usr/bin/env python3
"""A small real model behind llama.cpp's own HTTP server, on loopback: prints its address and stays
until its standard input ends. Run by tools/test_llm.py with the Python of its own environment."""

import argparse
import sys

import xllamacpp

CONTEXT_TOKENS = 4096
# The threads of llama.cpp spin while they wait for each other: on a machine that has other work,
# two of them are many times slower than one.
THREADS = 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("template", help="a chat template")
    args = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.use_jinja = True
    with open(args.template, encoding="utf-8") as stream:
        params.chat_template = stream.read()
    params.cpuparams.n_threads = THREADS
    server = xllamacpp.Server(params)
    print(f"ADDRESS {server.listening_address}", flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
