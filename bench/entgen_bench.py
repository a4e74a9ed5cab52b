"""What entgen costs: lines and object bytes per 10-field entity, CPU time to generate and compile
300 of them. Times are those of the child process (user and system), not of the wall clock."""

import os
import pathlib
import re
import subprocess
import tempfile
import time

ENTITIES = 300
TRIES = 3  # of a run that other processes disturbed; the last one stands
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

# Ten fields of the types that people use, a unique key and an index, as a table usually has them.
ENTITY = """
## Number {i} of many.
entity Item{i} {{
  key         string  unique notempty
  title       string?
  body        text
  kind        enum(draft, open, closed)
  size        int     = 0
  weight      float?
  pinned      bool    = false
  details     json?
  created_at  time    = now immutable
  updated_at  time    = now on_update

  index (updated_at)
}}
"""
COMPILE = ["-std=c11", "-O2", "-c"]
CALLGRIND = re.compile(r"^summary: (\d+)", re.M)


def schema(entities):
    """A schema of that many 10-field entities."""
    head = "schema many {\n  version 1\n}\n"
    return head + "".join(ENTITY.format(i=i) for i in range(1, entities + 1))


def machine_seconds():
    """CPU time of the whole machine so far, without idling and waiting."""
    with open("/proc/stat", encoding="ascii") as stream:
        user, nice, system, _, _, irq, soft, steal = map(int, stream.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) * TICK_S


def cpu_seconds(command):
    """CPU time of one run of a command and of what it started; a disturbed run is repeated."""
    for _ in range(TRIES):
        wall, machine = time.monotonic(), machine_seconds()
        pid = os.posix_spawnp(command[0], command, os.environ)
        _, status, usage = os.wait4(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
        cpu = usage.ru_utime + usage.ru_stime
        others = machine_seconds() - machine - cpu
        if others <= (time.monotonic() - wall) / 5 + 2 * TICK_S:
            break
    return cpu


def object_bytes(path):
    """text + data of an object file, as size(1) reports."""
    command = ["size", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text, data = output.splitlines()[1].split()[:2]
    return int(text) + int(data)


def instructions(command, folder):
    """Instructions of one run of a command and of what it starts, or None without valgrind."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        out = pathlib.Path(name, "callgrind.%p")
        full = ["valgrind", "--quiet", "--tool=callgrind", "--trace-children=yes"]
        full += [f"--callgrind-out-file={out}", *command]
        try:
            subprocess.run(full, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        texts = [path.read_text(encoding="utf-8") for path in out.parent.iterdir()]
    total = sum(int(match.group(1)) for text in texts for match in CALLGRIND.finditer(text))
    return {"ours": total} if total else None


def line(name, unit, values, options, count=False, counted=None):
    """One result, in the form that quipu_bench prints."""
    result = {"name": name, "bench": name, "measure": "count" if count else "values"}
    result |= {"unit": unit, "against": "", "options": options, "values": values}
    if counted:
        result["instructions"] = counted
    return result


def measure(entgen, include, compiler, with_instructions, repetitions):
    """All four numbers as result lines. `include` is the folder of ent/ent.h."""
    with tempfile.TemporaryDirectory(prefix="quipu-bench-") as name:
        folder = pathlib.Path(name)
        source = folder / "many.ent"
        source.write_text(schema(ENTITIES), encoding="utf-8")

        out = folder / "out"
        out.mkdir()
        generate = [str(entgen), "-o", str(out), str(source)]

        def generate_anew():
            # entgen leaves files alone that would not change, so they have to go.
            for path in out.iterdir():
                path.unlink()
            return cpu_seconds(generate)

        generate_s = [generate_anew() for _ in range(repetitions)]
        code, target = out / "many.c", folder / "many.o"
        build = [compiler, *COMPILE, f"-I{include}", f"-I{out}", str(code), "-o", str(target)]
        compile_s = [cpu_seconds(build) for _ in range(repetitions)]
        lines = sum(p.read_text(encoding="utf-8").count("\n") for p in (code, out / "many.h"))
        counted = [None, None]
        if with_instructions:
            counted = [instructions(command, folder) for command in (generate, build)]
        what = f"{ENTITIES} entities of 10 fields"
        flags = f"{what}, {compiler} {' '.join(COMPILE)}"
        size = object_bytes(target)
    generate_ms = [s * 1000 for s in generate_s]
    per_entity = f"{what}, .h and .c together, divided by {ENTITIES}"
    return [
        line("entgen.lines_per_entity", "lines", [lines / ENTITIES], per_entity, count=True),
        line("entgen.object_bytes_per_entity", "bytes", [size / ENTITIES], flags, count=True),
        line("entgen.generate_300_cpu_ms", "ms", generate_ms, what, False, counted[0]),
        line("entgen.compile_300_cpu_s", "s", compile_s, flags, False, counted[1]),
    ]
