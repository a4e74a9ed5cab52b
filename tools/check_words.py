#!/usr/bin/env python3
"""The field's words and plain sentences, as CONTRIBUTING.md asks for them: words that the project
gave up stay away from names, comments, texts and pages."""

import re

import qptools

FOLDERS = ("src", "include", "apps", "bindings", "entgen", "examples", "docs", "schema", "web",
           "bench", "cmake", "packaging", "tests", "tools")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
         "Makefile")
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
    (r"pulses?|beats?", "change signal, change watch"),
    (r"company|inviting|group_dear\w*", "expected_size, waiting_for_more, BATCH_WAIT_MIN_NS"),
    (r"dismiss(?:es|ed|ing)?", "requeue, roll back"),
    (r"(?<!front )doors?", "entry"),
    (r"qp_carry\w*|qp_known\w*|qp_goes_on", "coalesce, flush, session cache"),
    (r"quipu_call(?!_)|quipu_session_who|quipu_message_annotate_timeout",
     "quipu_call_options, quipu_live_identity, quipu_message_append_partial"),
)
# Words that have their ordinary meaning elsewhere: (word, what says it, the paths where it is not
# used, text around a match that is fine). A bench measures wall time, a chat program's answer comes
# in pieces, the demo books seats on a train, a test sleeps for a nap, a standby lags.
PLACES = (
    (r"seats?", "writer slots", r"^(?:src|include|bench|docs/decisions)/",
     r'"seats taken"|"seats" and all'),  # a row's name, on disk since 0.1
    (r"walls?(?! (?:clock|time)s?)", "row-level security", r"^(?:src|include|docs)/",
     r'"wall"'),  # a clock's name in bench.json
    (r"pieces?", "chunks, cursor batches",
     r"^src/ent_postgres/|^docs/(?:scale|decisions/0020)", None),
    (r"naps?", "pauses, backoff", r"^(?:docs|include)/|^[A-Z]+\.md$", None),
    (r"lags", "index_pending", r"^src/store/", r'"lags"|`lags`'),  # the column's name on disk
    (r"whom or what", "the person or thing that", r"^(?:src|include|apps|docs)/",
     r'subject\\" is whom'),  # a model's instruction: its text has a version
)
# Sentences that begin with a riddle: their subject is not named. Where a capital decides, they are
# read as they are spelled. In Python None is a value.
RIDDLES = (
    (r"Of (?:a|an|null|none|no|what|which|it|its|one|another) ", "the thing itself, then its verb"),
    (r"One (?:that|who|whose) ", "the noun again"),
    (r"Who (?:has|is|was|makes?|waits?|asks?|owns?|writes?|reads?|can|opens?|opened|wants?|uses?|"
     r"sends?|loses|lost|deletes?|needs|gets) (?![^.\n]*\?)", "the caller, the writer, a program"),
    (r"\b(?:for|of|by|than|only|from) who (?:has|is|was|can|asks?|reads?|needs?|wants?|writes?|"
     r"makes?|owns?|opens?|embeds?|locks) ", "the caller, the writer, a program"),
    (r"\b(?:it|one|which|text|byte) (?:is|are) none\b", "is not, does not count, is refused"),
)
RIDDLE_PATHS = re.compile(r"^(?:src|include|apps|entgen|docs)/|^[A-Z]+\.md$|^Makefile$")
SELF = "tools/check_words.py"
# Programs that put words into the mouths of users and models: there a quoted text may say anything.
TALKERS = re.compile(r"(?:^|/)(?:tests?|bench)/|_test\.go$")
QUOTED = re.compile(r"""(?<![\w"'])[fbru]{0,2}(["'])(?!\1)(?:\\.|(?!\1)[^\\\n])*\1""")


def pattern(words):
    """The words at their borders; a name's parts are words, too."""
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.I)


def rules_of():
    """(what to look for, what to say, which paths or None for all, what is fine or None)."""
    rules = [(pattern(words), instead, None, None) for words, instead in WORDS]
    rules += [
        (pattern(words), instead, re.compile(where), re.compile(fine) if fine else None)
        for words, instead, where, fine in PLACES
    ]
    return rules + [(re.compile(words), say, RIDDLE_PATHS, None) for words, say in RIDDLES]


def main():
    args = qptools.parser(__doc__).parse_args()
    report = qptools.Report("words")
    rules = rules_of()
    paths = qptools.files(args.root, KINDS, FOLDERS)
    paths += [p for p in qptools.files(args.root, PAGES) if len(p.parts) == 1]
    for path in paths:
        if str(path) == SELF or qptools.is_generated(args.root, path):
            continue
        text = (args.root / path).read_text(encoding="utf-8", errors="replace")
        if TALKERS.search(str(path)) and path.suffix != ".md":
            text = QUOTED.sub('""', text)
        for rule, instead, where, fine in rules:
            if where is not None and not where.search(str(path)):
                continue
            for match in rule.finditer(text):
                begin, end = max(match.start() - 20, 0), match.end() + 20
                if fine is None or not fine.search(text[begin:end]):
                    line = text.count("\n", 0, match.start()) + 1
                    report.bad(path, line, f'"{match.group(0).strip()}": say {instead}')
    report.finish(f"{len(paths)} files")


if __name__ == "__main__":
    main()
