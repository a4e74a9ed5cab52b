/* The benches of this folder, one function each; main.c has the list. */
#ifndef BENCH_BENCHES_H
#define BENCH_BENCHES_H

#include "bench/harness.h"

/* json_bench.c: our JSON reader against json_valid(). */
void bench_json_parse(const bench_arguments *arguments);

/* ent_bench.c: the entity runtime against hand-written SQLite calls. */
void bench_ent_load(const bench_arguments *arguments);
void bench_ent_insert(const bench_arguments *arguments);
void bench_ent_iterate(const bench_arguments *arguments);

/* count_bench.c: what is counted. */
void bench_ent_allocations(const bench_arguments *arguments);
void bench_ent_prepares(const bench_arguments *arguments);

/* append_bench.c: appends against raw_same and raw; threads together. */
void bench_store_append_normal(const bench_arguments *arguments);
void bench_store_append_full(const bench_arguments *arguments);
void bench_store_callers_8(const bench_arguments *arguments);
void bench_store_callers_64(const bench_arguments *arguments);
void bench_store_append_flat(const bench_arguments *arguments);

/* processes_bench.c: processes together. */
void bench_store_processes(const bench_arguments *arguments);

/* store_bench.c: the store against raw_same, and against itself. */
void bench_store_load_all(const bench_arguments *arguments);
void bench_store_load_last(const bench_arguments *arguments);
void bench_store_create(const bench_arguments *arguments);
void bench_store_get_or_create(const bench_arguments *arguments);
void bench_store_delete(const bench_arguments *arguments);
void bench_store_delete_long(const bench_arguments *arguments);
void bench_store_list_flat(const bench_arguments *arguments);
void bench_store_window_flat(const bench_arguments *arguments);
void bench_store_near_flat(const bench_arguments *arguments);
void bench_store_bytes(const bench_arguments *arguments);

/* checksum_bench.c: with page checksums and without, encrypted and plain. */
void bench_store_checksums_load(const bench_arguments *arguments);
void bench_store_checksums_append(const bench_arguments *arguments);
void bench_store_encrypted_load(const bench_arguments *arguments);
void bench_store_encrypted_append(const bench_arguments *arguments);
void bench_store_encrypted_append_cpu(const bench_arguments *arguments);

/* chain_bench.c: what a link of the hash chain costs. */
void bench_store_chain_normal(const bench_arguments *arguments);
void bench_store_chain_full(const bench_arguments *arguments);

/* mixed_bench.c: interleaved sessions. */
void bench_store_mixed(const bench_arguments *arguments);

/* read_bench.c: memory, a cold start, search. */
void bench_store_peak(const bench_arguments *arguments);
void bench_store_cold(const bench_arguments *arguments);
void bench_store_encrypted_cold(const bench_arguments *arguments);
void bench_store_search(const bench_arguments *arguments);

/* pg_bench.c: the store in PostgreSQL. */
void bench_postgres_append(const bench_arguments *arguments);
void bench_postgres_callers(const bench_arguments *arguments);
void bench_postgres_load_all(const bench_arguments *arguments);
void bench_postgres_load_last(const bench_arguments *arguments);
void bench_postgres_list_flat(const bench_arguments *arguments);
void bench_postgres_beside_creates(const bench_arguments *arguments);
void bench_postgres_beside_indexing(const bench_arguments *arguments);
void bench_postgres_hot(const bench_arguments *arguments);

/* context_bench.c: prompts with memory. */
void bench_context_flat(const bench_arguments *arguments);
void bench_context_raw(const bench_arguments *arguments);
void bench_context_replay(const bench_arguments *arguments);

/* event_bench.c: the session service and its events. */
void bench_event_decode(const bench_arguments *arguments);
void bench_event_encode(const bench_arguments *arguments);
void bench_event_append(const bench_arguments *arguments);
void bench_event_append_state(const bench_arguments *arguments);
void bench_event_recent(const bench_arguments *arguments);
void bench_event_recent_texts(const bench_arguments *arguments);
void bench_event_flat(const bench_arguments *arguments);

/* agent_bench.c: an agent's turn. */
void bench_recall_user(const bench_arguments *arguments);
void bench_agent_turn_flat(const bench_arguments *arguments);
void bench_agent_recall_flat(const bench_arguments *arguments);

/* memory_bench.c: the rule observer. */
void bench_memory_rules(const bench_arguments *arguments);

/* model_bench.c: answers of models as they stream in. */
void bench_model_sse(const bench_arguments *arguments);
void bench_model_openai(const bench_arguments *arguments);
void bench_model_anthropic(const bench_arguments *arguments);
void bench_model_gemini(const bench_arguments *arguments);

#endif
