#!/bin/bash
# The shared libquipu-provider in a program that replaced the allocator: its results cross to
# libquipu and are freed there, and every block comes from that allocator and goes back to it.
set -eu
build=${QUIPU_BINARY_DIR:-build/debug}
source=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -e "$build/libquipu-provider.so" ]; then
    echo "SKIP: libquipu-provider was not built: no libcurl"
    exit 77
fi
folder=$(mktemp -d)
peer_pid=""
finish() {
    exec 3>&- || true
    [ -z "$peer_pid" ] || wait "$peer_pid" || true
    rm -rf "$folder"
}
trap finish EXIT

cat >"$folder/shared.c" <<'C'
#include <quipu/provider.h>
#include <stdio.h>
#include <stdlib.h>

static long blocks;

static void *count(void *ctx, void *p, size_t size)
{
    (void)ctx;
    blocks += p == NULL ? 1 : size == 0 ? -1 : 0;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

int main(int argc, char **argv)
{
    quipu_allocator allocator = {NULL, count};
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_provider *provider = NULL;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_model_infos list;
    quipu_error error = {0};
    char url[200];

    if (argc < 2 || quipu_set_allocator(&allocator, NULL) != QUIPU_OK) {
        return 2;
    }
    snprintf(url, sizeof(url), "http://127.0.0.1:%s/ok", argv[1]);
    options.base_url = quipu_cstr(url);
    if (quipu_provider_open(QUIPU_PROVIDER_OPENAI, &options, &provider, &error) != QUIPU_OK ||
        quipu_model_generate(provider, &request, NULL, NULL, &arena, &response, &error) !=
            QUIPU_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%s\n", response.text.p);
    quipu_provider_close(provider);
    snprintf(url, sizeof(url), "http://127.0.0.1:%s/list", argv[1]);
    options.base_url = quipu_cstr(url);
    if (quipu_provider_open(QUIPU_PROVIDER_OPENAI, &options, &provider, &error) != QUIPU_OK ||
        provider->list(provider->ctx, NULL, &arena, &list, &error) != QUIPU_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%zu models, %s blocks\n", list.count, blocks > 0 ? "counted" : "no");
    quipu_provider_close(provider);
    quipu_arena_free(&arena);
    printf("%ld blocks left\n", blocks);
    return blocks == 0 ? 0 : 1;
}
C
"${QUIPU_CC:-cc}" -std=c11 -Wall -Wextra -Werror "$folder/shared.c" -I"$source/include" -L"$build" \
    -Wl,-rpath,"$build" -lquipu-provider -lquipu -o "$folder/shared"
mkfifo "$folder/in" "$folder/out"
python3 "$source/tests/provider/peer.py" "$folder/log" <"$folder/in" >"$folder/out" &
peer_pid=$!
exec 3>"$folder/in" # the peer ends when this closes
read -r port <"$folder/out"
"$folder/shared" "$port" >"$folder/shown"
printf 'Hello there\n2 models, counted blocks\n0 blocks left\n' >"$folder/wanted"
diff "$folder/wanted" "$folder/shown"
