"""Write the glue between Python and native.h: python generate.py OUTPUT.c"""

import pathlib
import sys

import cffi

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    lines = (HERE / "native.h").read_text(encoding="utf-8").splitlines()
    ffi = cffi.FFI()
    ffi.cdef("\n".join(line for line in lines if not line.startswith("#")))
    ffi.cdef(
        'extern "Python" int qpy_embed(int64_t, const char *, const int64_t *, size_t,'
        " qpy_vectors *);"
        'extern "Python" int qpy_ask(int64_t, const char *, const int64_t *, int64_t,'
        " qpy_answer *);"
    )
    ffi.set_source("quipu._native", '#include "native.h"')
    ffi.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
