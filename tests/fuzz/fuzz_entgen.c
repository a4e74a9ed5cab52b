/* Any bytes through entgen: parsing and checking never crash; what passes them is emitted in every
 * form, and its canonical text reads back as the same schema. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "ent/schema_text.h"
#include "entgen/emit.h"
#include "entgen/parse.h"
#include "entgen/run.h"
#include "entgen/schema.h"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(
        "entity Session table \"sessions\" {\n  key string unique notempty len(1..64)\n  n int = 5 "
        "range(0..9)\n  f float? = 0.5\n  at time = now on_update\n  uid uuid = random immutable\n"
        "  meta json = \"{}\"\n  edge messages -> Message[] cascade\n  index (at desc, key) name "
        "\"i\"\n}\nentity Message {\n  role enum(user, tool) = tool\n  seq int\n  body text\n"
        "  edge session <- Session.messages ? immutable column \"s\"\n  search (body) manual\n}\n"),
    FUZZ_SEED(
        "schema s {\n  prefix p_\n  application_id 0x51495055\n  version 2\n  min_reader 1\n}\n"
        "## A comment.\nentity Node {\n  edge children -> Node[] set_null\n  edge parent <- "
        "Node.children ?\n  edge lines -> Line[] restrict\n}\nentity Line {\n  edge node <- "
        "Node.lines\n"
        "  seq int\n  cluster (node, seq)\n}\n"),
    FUZZ_SEED("entity A { id bytes x bool = true y string? was \"z\" key (x, y) unique index (x, y "
              "desc) }"),
    FUZZ_SEED("entity A { edge b -> B cascade }\nentity B { edge a <- A.b key (a) s string = "
              "\"\\n\\t\\\"\\\\\" }"),
    FUZZ_SEED("entity"),
    FUZZ_SEED("\""),
    {NULL, 0}};

typedef void (*entgen_fuzz_emit_fn)(eg_run *run, const eg_schema *schema, qp_buf *out);

static bool entgen_fuzz_load(eg_run *run, eg_schema *schema, quipu_str text)
{
    eg_run_init(run);
    eg_schema_init(schema);
    eg_parse(run, schema, "fuzz.ent", text);
    return run->error_count == 0 && eg_schema_finish(run, schema, "fuzz.ent");
}

static void entgen_fuzz_emit(eg_run *run, const eg_schema *schema)
{
    static const entgen_fuzz_emit_fn emitters[] = {eg_emit_header, eg_emit_source, eg_emit_json,
                                                   eg_emit_mermaid, eg_emit_sql};

    for (size_t i = 0; i < sizeof(emitters) / sizeof(emitters[0]); i++) {
        qp_buf out;
        qp_buf_init(&out, EG_OUTPUT_MAX);
        emitters[i](run, schema, &out);
        FUZZ_CHECK(qp_buf_status(&out) == QUIPU_OK);
        qp_buf_free(&out);
    }
}

static void entgen_fuzz_round_trip(const eg_schema *schema)
{
    eg_run run;
    eg_schema again;
    qp_buf text;

    qp_buf_init(&text, EG_OUTPUT_MAX);
    FUZZ_CHECK(qp_schema_text(schema->described, true, &text) == QUIPU_OK);
    FUZZ_CHECK(entgen_fuzz_load(&run, &again, qp_buf_str(&text)));
    FUZZ_CHECK(strcmp(schema->hash, again.hash) == 0);
    eg_run_free(&run);
    qp_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    quipu_str text = {size > 0 ? (const char *)data : "", size};
    eg_run run;
    eg_schema schema;

    if (entgen_fuzz_load(&run, &schema, text)) {
        FUZZ_CHECK(qp_buf_str(&run.errors).n == 0);
        entgen_fuzz_emit(&run, &schema);
        entgen_fuzz_round_trip(&schema);
    } else {
        FUZZ_CHECK(qp_buf_str(&run.errors).n > 0);
    }
    eg_run_free(&run);
    return 0;
}
