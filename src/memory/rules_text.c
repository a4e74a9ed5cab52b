/* Sentences and words of a message; the head of rules_text.h says what is passed over. Owns: the
 * reader's marks of code, quotations and markup. Called by: rules.c for each message, trace.c for
 * the user's own words. No lock, no transaction.
 *
 * Pure and without allocation: a sentence is a slice of the text, its words lie in the caller's
 * struct. Each byte is looked at a fixed number of times, so that a message of any size costs what
 * its length says. */
#include "memory/rules_text.h"

#include <assert.h>
#include <string.h>

#define TEXT_INDENT 4 /* blanks before a line of code */
#define TEXT_FENCE 3  /* marks that begin a block of it, at least */

/* Blanks inside of a line. The functions below look at bytes: letters outside of ASCII are 0x80 and
 * more, and count as parts of words. */
static bool rules_text_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static bool rules_text_is_lower(char byte)
{
    return byte >= 'a' && byte <= 'z';
}

static bool rules_text_is_upper(char byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static bool rules_text_is_letter(char byte)
{
    return rules_text_is_lower(byte) || rules_text_is_upper(byte);
}

static bool rules_text_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool rules_text_begins(quipu_str text, const char *head)
{
    const size_t n = strlen(head);

    return text.n >= n && memcmp(text.p, head, n) == 0;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* The line at `at`, without its end. */
static quipu_str rules_text_line(quipu_str text, size_t at)
{
    const char *end;

    assert(at < text.n);
    /* The last line of a message often has no end. */
    end = memchr(text.p + at, '\n', text.n - at);
    return (quipu_str){text.p + at, end != NULL ? (size_t)(end - text.p) - at : text.n - at};
}

/* A line that a program or another person wrote: indented code, a quoted line, a table, markup,
 * JSON, a prompt of a shell. */
static bool rules_text_is_foreign(quipu_str line)
{
    size_t indent = 0;

    while (indent < line.n && line.p[indent] == ' ') {
        indent++;
    }
    if (indent >= TEXT_INDENT || (line.n > 0 && line.p[0] == '\t')) {
        return true;
    }
    const quipu_str rest = {line.p + indent, line.n - indent};

    /* Signs that prose does not begin with: quotations of mails, tables, markup, JSON. */
    return rest.n > 0 && (strchr(">|<{}[", rest.p[0]) != NULL || rules_text_begins(rest, "$ ") ||
                          rules_text_begins(rest, "#include") || rules_text_begins(rest, "@@ ") ||
                          rules_text_begins(rest, "+++ ") || rules_text_begins(rest, "--- "));
}

/* The bytes of a bullet or a number of a list that the text begins with. */
static size_t rules_text_bullet(quipu_str text)
{
    /* With its blank: "-5" is a number, and "*bold*" is a word. */
    if (text.n > 2 && (text.p[0] == '-' || text.p[0] == '*') && text.p[1] == ' ') {
        return 2;
    }
    return text.n > 3 && rules_text_is_digit(text.p[0]) && (text.p[1] == '.' || text.p[1] == ')') &&
                   text.p[2] == ' '
               ? 3
               : 0;
}

/* Where somebody else's message begins: nothing behind it is the writer's. */
static bool rules_text_is_forwarded(quipu_str line)
{
    return rules_text_begins(line, "-----Original Message") ||
           rules_text_begins(line, "---------- Forwarded") ||
           rules_text_begins(line, "Begin forwarded message") ||
           rules_text_begins(line, "From: ") || rules_text_begins(line, "Subject: ");
}

/* Words of a line that ends with a colon and has a document behind it: what somebody else did, or
 * what is to be done with it... */
#define TEXT_GIVEN                                                                                 \
    "summarise summarize translate proofread paraphrase wrote writes said says reads replied "     \
    "answered"
/* ...or what it is, unless the user has rules for such documents. */
#define TEXT_DOCUMENTS                                                                             \
    "email mail e-mail article document text page letter message readme policy post paragraph "    \
    "transcript log output report review story essay draft song poem code file snippet abstract "  \
    "quote quotation tweet comment chapter excerpt passage contract specification"
#define TEXT_RULES "rules rule remember guidelines preferences instructions for when"

/* Whether a word is one of a list; `list` has blanks between words, in lower case. */
static bool rules_text_listed(quipu_str word, const char *list)
{
    for (const char *at = list; *at != '\0';) {
        const char *blank = strchr(at, ' ');
        const size_t n = blank != NULL ? (size_t)(blank - at) : strlen(at);
        size_t same = 0;

        /* 0x20 makes a letter small; other bytes differ anyway. */
        while (n == word.n && same < n && (word.p[same] | 0x20) == at[same]) {
            same++;
        }
        if (n == word.n && same == n) {
            return true;
        }
        at += n + (blank != NULL ? 1 : 0);
    }
    return false;
}

/* The last sentence of a line that ends with a colon, without it; otherwise nothing. */
static quipu_str rules_text_lead(quipu_str line)
{
    size_t end = line.n;
    size_t at;

    while (end > 0 && rules_text_is_blank(line.p[end - 1])) {
        end--;
    }
    if (end == 0 || line.p[end - 1] != ':') {
        return (quipu_str){line.p, 0};
    }
    /* Back to the end of the sentence before it, or to the beginning of the line. */
    for (at = --end; at > 0 && strchr(".!?", line.p[at - 1]) == NULL; at--) {
    }
    return (quipu_str){line.p + at, end - at};
}

/* Whether a line announces that what follows is a document: "Please summarise this email:". Only
 * its last sentence counts, so that what the user wants is read. */
static bool rules_text_announces(quipu_str line)
{
    const quipu_str lead = rules_text_lead(line);
    bool given = false;
    bool document = false;
    bool rules = false;

    for (size_t at = 0, stop; at < lead.n; at = stop + 1) {
        for (stop = at;
             stop < lead.n && (lead.p[stop] == '-' || rules_text_is_letter(lead.p[stop])); stop++) {
        }
        const quipu_str word = {lead.p + at, stop - at};

        /* Any order of the words counts: "Here is the email that Bob sent me:". */
        given = given || rules_text_listed(word, TEXT_GIVEN);
        document = document || rules_text_listed(word, TEXT_DOCUMENTS);
        rules = rules || rules_text_listed(word, TEXT_RULES);
    }
    return given || (document && !rules);
}

/* Moves behind the line that `at` stands in. */
static size_t rules_text_behind(quipu_str text, size_t at)
{
    const size_t end = at + rules_text_line(text, at).n;

    return end < text.n ? end + 1 : end;
}

/* The bytes of "<name" that a line begins with; 1 or less: it has no name. "<-", "< 5" and "<!--"
 * are not tags with a name. */
static size_t rules_text_name(quipu_str rest)
{
    size_t n = 1;

    if (rest.p[0] != '<' || (rest.n > 1 && rest.p[1] == '-')) {
        return 0;
    }
    while (n < rest.n && (rules_text_is_letter(rest.p[n]) || rest.p[n] == '_' || rest.p[n] == '-' ||
                          rules_text_is_digit(rest.p[n]))) {
        n++;
    }
    return n;
}

/* Where the markup that a line begins with ends: behind the line with "</name>", or at the line
 * itself when nothing closes it, so that it is one line. `rest` is the line without its indent. */
static size_t rules_text_markup(qp_rules_walk *walk, quipu_str rest)
{
    const quipu_str text = walk->text;
    const size_t n = rules_text_name(rest);

    if (n <= 1) {
        return walk->at;
    }
    /* The name must be closed by the same name; nested ones of the same name end too early,
     * which only shows more text. */
    for (const char *p = rest.p + n; (p = memchr(p, '<', (size_t)(text.p + text.n - p))) != NULL;
         p++) {
        const size_t left = (size_t)(text.p + text.n - p);

        if (left > n + 1 && p[1] == '/' && memcmp(p + 2, rest.p + 1, n - 1) == 0 &&
            p[n + 1] == '>') {
            return rules_text_behind(text, (size_t)(p - text.p));
        }
    }
    /* Too much was looked through: it may be enclosed, and is then not the user's word. */
    walk->sought += (size_t)(text.p + text.n - (rest.p + n));
    return walk->sought > QP_RULES_SOUGHT_MAX ? text.n : walk->at;
}

/* A mark of a block of code that a line begins with: how many of its characters; 0 when the line
 * has none. It may stand behind the bullet of a list. */
static size_t rules_text_fence(quipu_str rest, char *ret_mark, bool *ret_bare)
{
    const size_t bullet = rules_text_bullet(rest);
    size_t n = bullet;
    size_t behind;

    /* All of one kind: "``~" is not a fence. */
    while (n < rest.n && rest.p[n] == rest.p[bullet] && strchr("`~", rest.p[bullet]) != NULL) {
        n++;
    }
    for (behind = n; behind < rest.n && rules_text_is_blank(rest.p[behind]); behind++) {
    }
    *ret_bare = behind == rest.n;
    *ret_mark = bullet < rest.n ? rest.p[bullet] : '\0';
    return n - bullet >= TEXT_FENCE ? n - bullet : 0;
}

/* Moves over lines that are not prose; at the end of the text `at` is text.n. */
static void rules_text_skip(qp_rules_walk *walk)
{
    while (walk->at < walk->text.n) {
        const quipu_str line = rules_text_line(walk->text, walk->at);
        /* Blanks before a mark, of which TEXT_INDENT would already be code. */
        size_t blanks = 0;
        bool bare = false;
        char mark;

        while (blanks < line.n && blanks < TEXT_INDENT && line.p[blanks] == ' ') {
            blanks++;
        }
        const quipu_str rest = {line.p + blanks, line.n - blanks};
        const size_t fences = rules_text_fence(rest, &mark, &bare);
        size_t next = rules_text_behind(walk->text, walk->at);

        if (walk->fenced) {
            /* A shorter mark, another one, or one with a language is part of the code. */
            walk->fenced = !(fences >= walk->fences && mark == walk->fence && bare);
        } else if (fences > 0) {
            walk->fenced = true;
            walk->fence = mark;
            walk->fences = fences;
        } else if (rules_text_is_forwarded(line)) {
            /* Text behind a forwarded mail's first line was not written by the user. */
            next = walk->text.n;
        } else if (rest.n > 0 && rest.p[0] == '<') {
            const size_t behind = rules_text_markup(walk, rest);

            next = behind > next ? behind : next;
        } else if (line.n > 0 && !rules_text_is_foreign(line)) {
            /* Prose: the walk stops here. */
            return;
        }
        walk->at = next;
    }
}

/* Where prose that begins at `at` ends: the text is somebody else's behind a line that announces
 * it. */
static void rules_text_limit(qp_rules_walk *walk)
{
    const quipu_str line = rules_text_line(walk->text, walk->at);

    if (rules_text_announces(line)) {
        /* Cut for good: later sentences of this message are somebody else's. */
        walk->text.n = walk->at + line.n;
    }
}

/* ---- sentences --------------------------------------------------------------------------------
 */

/* A full stop that ends no sentence: of a title or an abbreviation. */
static bool rules_text_is_short(quipu_str text, size_t stop)
{
    static const char *const shorts[] = {"Dr", "Mr", "Mrs", "Ms",  "Prof",  "St",
                                         "vs", "No", "e.g", "i.e", "approx"};

    for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++) {
        /* As a whole word only: "best." ends a sentence, although "St." does not. */
        const size_t n = strlen(shorts[i]);

        if (stop >= n && memcmp(text.p + stop - n, shorts[i], n) == 0 &&
            (stop == n || rules_text_is_blank(text.p[stop - n - 1]) ||
             text.p[stop - n - 1] == '(')) {
            return true;
        }
    }
    return false;
}

/* Whether a line that follows continues the sentence: prose that was wrapped. */
static bool rules_text_continues(quipu_str text, size_t next)
{
    return next < text.n && rules_text_is_lower(text.p[next]);
}

/* The byte behind the sentence that begins at `at`. A sentence ends with a stop before a blank, or
 * with its line, unless the next line continues it. */
static size_t rules_text_end(quipu_str text, size_t at)
{
    size_t i = at;

    for (; i < text.n; i++) {
        const char byte = text.p[i];

        /* A line that goes on with a small letter was wrapped by a mail program. */
        if (byte == '\n' && !rules_text_continues(text, i + 1)) {
            return i;
        }
        if ((byte == '.' || byte == '!' || byte == '?') &&
            /* A stop inside of a word ("3.5", "e.g") ends nothing. */
            (i + 1 == text.n || strchr(" \t\r\n\"')", text.p[i + 1]) != NULL) &&
            !(byte == '.' && rules_text_is_short(text, i))) {
            return i + 1;
        }
    }
    return i;
}

static bool rules_text_is_space(char byte)
{
    return rules_text_is_blank(byte) || byte == '\n';
}

static quipu_str rules_text_trim_left(quipu_str text)
{
    while (text.n > 0 && rules_text_is_space(text.p[0])) {
        text.p++;
        text.n--;
    }
    return text;
}

/* Removes blanks around it, and a bullet or number of a list before it. */
static quipu_str rules_text_trim(quipu_str text)
{
    text = rules_text_trim_left(text);
    const size_t bullet = rules_text_bullet(text);

    text = rules_text_trim_left((quipu_str){text.p + bullet, text.n - bullet});
    while (text.n > 0 && rules_text_is_space(text.p[text.n - 1])) {
        text.n--;
    }
    return text;
}

/* ---- words ------------------------------------------------------------------------------------
 */

/* The bytes of an apostrophe at `p`: a plain one, or U+2019; 0 for another character. */
static size_t rules_text_apostrophe(const char *p, size_t n)
{
    if (p[0] == '\'') {
        return 1;
    }
    return p[0] == '\xe2' && n >= 3 && memcmp(p, "\xe2\x80\x99", 3) == 0 ? 3 : 0;
}

/* The bytes of a double quote or a backtick at `p`; 0 for another character. In UTF-8 guillemets
 * have two bytes, U+2018 and U+201C to U+201E three. */
static size_t rules_text_quote(const char *p, size_t n)
{
    if (p[0] == '"' || p[0] == '`') {
        return 1;
    }
    if (p[0] == '\xc2' && n >= 2 && (p[1] == '\xab' || p[1] == '\xbb')) {
        return 2; /* guillemets */
    }
    return p[0] == '\xe2' && n >= 3 && p[1] == '\x80' &&
                   (p[2] == '\x98' || p[2] == '\x9c' || p[2] == '\x9d' || p[2] == '\x9e')
               ? 3
               : 0;
}

/* Bytes above 0x7f belong to letters of other scripts, or to marks that are rare inside of
 * sentences: they are not distinguished here. */
static bool rules_text_is_word(char byte)
{
    return rules_text_is_lower(byte) || rules_text_is_upper(byte) || rules_text_is_digit(byte) ||
           (unsigned char)byte >= 0x80;
}

/* Appends a byte to the lower case of a word, as long as there is room. */
static void rules_text_put(qp_rules_word *word, char byte)
{
    /* A longer word is cut: no list has one of that length. */
    if (word->n < QP_RULES_WORD_BYTES) {
        word->lower[word->n++] = (char)(rules_text_is_upper(byte) ? byte - 'A' + 'a' : byte);
    }
}

/* Reads a word at `at`; gives the byte behind it. */
static size_t rules_text_word(quipu_str text, size_t at, qp_rules_word *ret)
{
    size_t i = at;

    /* `at` and `end` fit 16 bits: sentences have at most QP_RULES_SENTENCE_MAX bytes. */
    *ret = (qp_rules_word){.at = (uint16_t)at, .capital = rules_text_is_upper(text.p[at])};
    while (i < text.n) {
        const size_t apostrophe = rules_text_apostrophe(text.p + i, text.n - i);

        if (apostrophe > 0) {
            /* Only inside of a word: "don't", and not the end of a quotation. */
            if (i + apostrophe >= text.n || !rules_text_is_lower(text.p[i + apostrophe])) {
                break;
            }
            rules_text_put(ret, '\'');
            i += apostrophe;
        } else if (rules_text_quote(text.p + i, text.n - i) > 0) {
            break;
        } else if (rules_text_is_word(text.p[i])) {
            rules_text_put(ret, text.p[i++]);
        } else if ((text.p[i] == '.' || text.p[i] == ',' || text.p[i] == '-' || text.p[i] == ':') &&
                   i + 1 < text.n && i > at && rules_text_is_digit(text.p[i - 1]) &&
                   rules_text_is_digit(text.p[i + 1])) {
            rules_text_put(ret, text.p[i++]); /* 3.5, 1,000, 2026-11-16, 14:30 */
        } else {
            break;
        }
    }
    ret->lower[ret->n] = '\0';
    ret->end = (uint16_t)i;
    assert(i > at);
    return i;
}

/* The end of a quotation in single quotes that begins at `at`, or `at` when none does: it opens
 * before a word and closes behind one. */
static size_t rules_text_single(quipu_str text, size_t at)
{
    size_t i = at + 1;

    if (text.p[at] != '\'' || (at > 0 && rules_text_is_word(text.p[at - 1]))) {
        return at;
    }
    /* An apostrophe before a letter is part of a word and closes nothing. */
    while (i < text.n &&
           (text.p[i] != '\'' || (i + 1 < text.n && rules_text_is_word(text.p[i + 1])))) {
        i++;
    }
    return i < text.n ? i : at;
}

/* The same at a place of a text: a mark behind a digit opens nothing, it stands for inches. */
static size_t rules_text_quote_at(quipu_str text, size_t at, bool quoted)
{
    const bool inches = !quoted && at > 0 && rules_text_is_digit(text.p[at - 1]);

    return inches ? 0 : rules_text_quote(text.p + at, text.n - at);
}

/* Whether a text that begins inside of a quotation or outside of it ends inside. */
static bool rules_text_quoted(quipu_str text, bool quoted)
{
    for (size_t i = 0; i < text.n;) {
        const size_t quote = rules_text_quote_at(text, i, quoted);

        /* Each mark toggles: openings and closings look alike in many texts. */
        quoted = quoted != (quote > 0);
        i += quote > 0 ? quote : 1;
    }
    return quoted;
}

/* Where the next mark of a quotation stands from `at` on; text.n: there is none. Each byte is read
 * once: a mark that is still ahead stays the next one. */
static size_t rules_text_mark(qp_rules_walk *walk)
{
    if (walk->mark < walk->at) {
        for (walk->mark = walk->at; walk->mark < walk->text.n; walk->mark++) {
            if (rules_text_quote(walk->text.p + walk->mark, walk->text.n - walk->mark) > 0) {
                break;
            }
        }
    }
    return walk->mark < walk->text.n ? walk->mark : walk->text.n;
}

/* Whether a quotation that a line before `at` left open is closed later. When the next mark opens
 * one, as behind a blank and before a word, the earlier was none, or nobody has closed it. */
static bool rules_text_closes(qp_rules_walk *walk)
{
    const quipu_str text = walk->text;
    const size_t i = rules_text_mark(walk);

    assert(walk->at > 0 && walk->at <= i);
    if (i == text.n) {
        return false;
    }
    const size_t quote = rules_text_quote(text.p + i, text.n - i);
    const bool behind = strchr(" \t\r\n(", text.p[i - 1]) != NULL;
    const bool before = i + quote < text.n && rules_text_is_word(text.p[i + quote]);

    return !(behind && before);
}

/* Splits a sentence into words; `quoted`: it begins inside of a quotation. */
static void rules_text_words(qp_rules_sentence *sentence, bool quoted)
{
    const quipu_str text = sentence->text;
    size_t single = 0; /* the end of a quotation in single quotes */
    bool clause = true;
    size_t i = 0;

    assert(text.n <= QP_RULES_SENTENCE_MAX);
    sentence->count = 0;
    while (i < text.n && sentence->count < QP_RULES_WORDS_MAX) {
        const size_t mark = rules_text_quote(text.p + i, text.n - i);

        if (mark > 0) {
            /* A mark of inches moves on without toggling. */
            quoted = quoted != (rules_text_quote_at(text, i, quoted) > 0);
            i += mark;
        } else if (text.p[i] != '\'' && rules_text_apostrophe(text.p + i, text.n - i) > 0) {
            i += rules_text_apostrophe(text.p + i, text.n - i); /* no word begins with it */
        } else if (rules_text_is_word(text.p[i])) {
            qp_rules_word *word = &sentence->words[sentence->count++];

            /* The flags hold for the word alone; the next one starts from what stands between
             * them. */
            i = rules_text_word(text, i, word);
            word->clause = clause;
            word->quoted = quoted || word->at < single;
            clause = false;
        } else {
            single = i >= single ? rules_text_single(text, i) : single;
            clause = clause || strchr(",;:(", text.p[i]) != NULL ||
                     (text.p[i] == '-' && i + 1 < text.n && text.p[i + 1] == '-');
            i++;
        }
    }
}

/* At the beginning of a line: lines that are not prose are passed over, unless a quotation goes on.
 * False at the end of the text. */
static bool rules_text_begin(qp_rules_walk *walk)
{
    /* In the middle of a line: the sentence before it ended here. */
    if (walk->at > 0 && walk->text.p[walk->at - 1] != '\n') {
        return walk->at < walk->text.n;
    }
    walk->quoted = walk->quoted && rules_text_closes(walk);
    if (!walk->quoted) {
        rules_text_skip(walk);
        if (walk->at < walk->text.n) {
            rules_text_limit(walk);
        }
    }
    return walk->at < walk->text.n;
}

/* Lines of code, tables and quoted text are skipped at the beginning of a line only, where they are
 * recognised. Quotation marks toggle across sentences, and across lines when another mark closes
 * the quotation. */
bool qp_rules_next(qp_rules_walk *walk, qp_rules_sentence *ret)
{
    while (walk->at < walk->text.n && rules_text_begin(walk)) {
        const size_t end = rules_text_end(walk->text, walk->at);
        const quipu_str raw = {walk->text.p + walk->at, end - walk->at};
        const bool quoted = walk->quoted;

        walk->quoted = rules_text_quoted(raw, quoted);
        ret->text = rules_text_trim(raw);
        /* The end of the line belongs to no sentence. */
        walk->at = end < walk->text.n && walk->text.p[end] == '\n' ? end + 1 : end;
        assert(walk->at > 0);
        /* Too short ones say nothing; too long ones are lists or code that no rule understands. */
        if (ret->text.n >= QP_RULES_SENTENCE_MIN && ret->text.n <= QP_RULES_SENTENCE_MAX) {
            ret->question = ret->text.p[ret->text.n - 1] == '?';
            rules_text_words(ret, quoted);
            return true;
        }
    }
    return false;
}

/* Up to the next mark of a quotation, or to the end of the line. */
bool qp_rules_own(qp_rules_walk *walk, quipu_str *ret_text)
{
    while (walk->at < walk->text.n && rules_text_begin(walk)) {
        const quipu_str rest = {walk->text.p + walk->at, walk->text.n - walk->at};
        const bool quoted = walk->quoted;
        size_t quote = 0;
        size_t i = 0;

        while (i < rest.n && rest.p[i] != '\n' && quote == 0) {
            quote = rules_text_quote_at(rest, i, quoted);
            i += quote == 0;
        }
        walk->quoted = quoted != (quote > 0);
        walk->at += quote > 0 ? i + quote : i + (i < rest.n ? 1 : 0);
        /* A piece inside of a quotation is passed over. */
        if (!quoted && i > 0) {
            *ret_text = (quipu_str){rest.p, i};
            return true;
        }
    }
    return false;
}

/* `words` are separated by single blanks. A quoted word never matches: it is somebody else's. */
size_t qp_rules_match(const qp_rules_sentence *sentence, size_t at, const char *words)
{
    size_t count = 0;

    while (*words != '\0') {
        const char *blank = strchr(words, ' ');
        const size_t n = blank != NULL ? (size_t)(blank - words) : strlen(words);
        const qp_rules_word *word;

        if (at + count >= sentence->count) {
            return 0;
        }
        word = &sentence->words[at + count];
        if (word->n != n || word->quoted || memcmp(word->lower, words, n) != 0) {
            return 0;
        }
        count++;
        words += n + (blank != NULL ? 1 : 0);
    }
    return count;
}

/* `list` has words with blanks between them, in lower case. */
bool qp_rules_in(const qp_rules_word *word, const char *list)
{
    const size_t n = word->n;

    /* Mostly the first byte differs: then the list is only walked to the next word. */
    for (const char *at = list; *at != '\0';) {
        /* The word must end where the entry of the list ends: "no" is not "not". */
        if (*at == word->lower[0] && strncmp(at, word->lower, n) == 0 &&
            (at[n] == ' ' || at[n] == '\0')) {
            return true;
        }
        while (*at != '\0' && *at != ' ') {
            at++;
        }
        at += *at == ' ';
    }
    return false;
}
