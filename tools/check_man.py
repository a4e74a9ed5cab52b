#!/usr/bin/env python3
"""The manual pages of quipu agree with the program: NAME, SYNOPSIS and OPTIONS of every verb's page
are what the table of verbs says, and so is the list of verbs in quipu(1). --fix writes them."""

import re
import subprocess

import qptools

# A generated part stands between these lines; the rest of a page is written by hand.
BLOCK = re.compile(r'^(\.\\" generated: (?!end)(\w+)\n)(.*?)(^\.\\" generated: end$)', re.M | re.S)
HEAD = '.TH QUIPU\\-{upper} 1 "2026" "quipu {version}" "User Commands"\n'
EMPTY = '.\\" generated: {name}\n.\\" generated: end\n'
WANTED = {"quipu": ["VERBS"], None: ["NAME", "OPTIONS"]}


def ask(program, *args):
    """What the program prints."""
    return subprocess.run([program, *args], capture_output=True, text=True, check=True).stdout


def verbs(program):
    """The names of all verbs, as the help lists them."""
    return re.findall(r"^  (\w+) +\S", ask(program, "--help"), re.M)


def parts(program, page):
    """The generated parts of a page by their first section."""
    text = ask(program, "completion", "--roff", page)
    if page == "quipu":
        return {"VERBS": text}
    head, options = text.split(".SH OPTIONS\n")
    return {"NAME": head, "OPTIONS": ".SH OPTIONS\n" + options}


def check_page(report, path, shown, wanted, fix):
    """Compare one page's generated parts, or write them."""
    if not path.exists():
        report.bad(shown, 0, "the verb has no manual page")
        return
    text = path.read_text(encoding="utf-8")
    found = {match.group(2): match.group(3) for match in BLOCK.finditer(text)}
    if set(found) != set(wanted):
        report.bad(shown, 1, f"generated parts are {sorted(found)}, should be {sorted(wanted)}")
        return
    if fix:
        new = BLOCK.sub(lambda m: m.group(1) + wanted[m.group(2)] + m.group(4), text)
        if new != text:
            path.write_text(new, encoding="utf-8")
        return
    for name, part in wanted.items():
        if found[name] != part:
            report.bad(shown, 1, f"{name} is not what the program says; run it with --fix")
    for section in ("DESCRIPTION", "EXAMPLES"):
        if f".SH {section}" not in text:
            report.bad(shown, 1, f"there is no section {section}")


def skeleton(path, verb, version):
    """A new page, whose text is still to be written by hand: the check asks for it."""
    head = HEAD.format(upper=verb.upper(), version=version)
    path.write_text(head + "".join(EMPTY.format(name=n) for n in WANTED[None]), encoding="utf-8")


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--build", default="build/debug", help="where the program was built")
    parser.add_argument("--fix", action="store_true", help="write the generated parts")
    parser.add_argument("verbs", nargs="*", help="only these; default: all, and quipu(1)")
    args = parser.parse_args()
    build = args.root / args.build
    # The release puts its programs beside its folder.
    program = build.parent / "quipu" if build.name == "release" else build / "bin/quipu"
    if not program.exists():
        qptools.skip("man", f"build {args.build} first")
    report = qptools.Report("man")
    folder = args.root / "docs" / "man"
    version = ask(program, "version").split()[1].rsplit(".", 1)[0]
    names = verbs(program)
    for verb in args.verbs or names:
        page = folder / f"quipu-{verb}.1"
        if args.fix and not page.exists():
            skeleton(page, verb, version)
        check_page(report, page, f"docs/man/{page.name}", parts(program, verb), args.fix)
    if not args.verbs:
        main_page = folder / "quipu.1"
        check_page(report, main_page, "docs/man/quipu.1", parts(program, "quipu"), args.fix)
    for page in folder.glob("quipu-*.1"):
        if page.stem.removeprefix("quipu-") not in names:
            report.bad(f"docs/man/{page.name}", 1, "there is no such verb")
    report.finish(f"{len(args.verbs or names)} verbs")


if __name__ == "__main__":
    main()
