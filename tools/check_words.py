#!/usr/bin/env python3
"""The field's words and plain sentences, as CONTRIBUTING.md asks for them: words that the project
gave up stay away from names, comments, texts and pages."""

import re

import qptools

FOLDERS = ("src", "include", "apps", "bindings", "entgen", "examples", "docs", "schema", "web",
           "bench", "cmake", "packaging", "tests", "tools")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
KINDS = ("*.c", "*.h", "*.md", "*.[1-9]", "*.py", "*.sh", "*.ent", "*.go", "*.js", "*.mjs", "*.ts",
         "*.html", "*.cmake", "*.txt")
# A word that is not used here, and what says it. Part of a name counts: "_" is no letter here.
WORDS = (
    (r"tells?|told|telling", "says, reports, returns, writes, distinguishes"),
    (r"whoever|those who", "the subject's name: the caller, the writer, a program"),
    (r"is none of|none of (?:its|their)", "is not, is outside of, has no, takes none"),
    (r"of ours|of theirs", "the owner's name: quipu, this program, the schema"),
    (r"knows of", "has, stores, has recorded"),
    (r"gave up|given up", "released, dropped, stopped, abandoned"),
    (r"believ(?:e|es|ed|ing)", "optimistic, assume"),
    (r"unsay|unsaid", "clear"),
    (r"keeper", "maintenance"),
    (r"put off|puts off", "defer"),
    (r"known rows?", "session cache"),
)
SELF = "tools/check_words.py"
# Programs that put words into the mouths of users and models: there a quoted text may say anything.
TALKERS = re.compile(r"(?:^|/)(?:tests?|bench)/|_test\.go$")
QUOTED = re.compile(r"""(?<![\w"'])[fbru]{0,2}(["'])(?!\1)(?:\\.|(?!\1)[^\\\n])*\1""")


def pattern(words):
    """The words at their borders; a name's parts are words, too."""
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.I)


def main():
    args = qptools.parser(__doc__).parse_args()
    report = qptools.Report("words")
    rules = [(pattern(words), instead) for words, instead in WORDS]
    paths = qptools.files(args.root, KINDS, FOLDERS)
    paths += [p for p in qptools.files(args.root, PAGES) if len(p.parts) == 1]
    for path in paths:
        if str(path) == SELF or qptools.is_generated(args.root, path):
            continue
        text = (args.root / path).read_text(encoding="utf-8", errors="replace")
        if TALKERS.search(str(path)) and path.suffix != ".md":
            text = QUOTED.sub('""', text)
        for rule, instead in rules:
            for match in rule.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                report.bad(path, line, f'"{match.group(0)}": say {instead}')
    report.finish(f"{len(paths)} files")


if __name__ == "__main__":
    main()
