/* Certificates are checked: an unknown one is refused, a trusted one of another host too. */
#include "lib/t.h"

#include <spawn.h>
#include <sys/wait.h>

#include <quipu/provider.h>

#include "provider/peer.h"

extern char **environ;

/* A self-signed certificate for `name`, such as "IP:127.0.0.1"; false: there is no openssl. */
static bool tls_make(const char *name, char ret_cert[T_PATH_MAX], char ret_key[T_PATH_MAX])
{
    char extension[100];
    char *argv[] = {(char[]){"openssl"},
                    (char[]){"req"},
                    (char[]){"-x509"},
                    (char[]){"-newkey"},
                    (char[]){"rsa:2048"},
                    (char[]){"-nodes"},
                    (char[]){"-batch"},
                    (char[]){"-subj"},
                    (char[]){"/CN=quipu test"},
                    (char[]){"-days"},
                    (char[]){"2"},
                    (char[]){"-addext"},
                    extension,
                    (char[]){"-out"},
                    ret_cert,
                    (char[]){"-keyout"},
                    ret_key,
                    NULL};
    const char *dir = t_tmpdir();
    int status = 0;
    pid_t pid;

    t_path(dir, "cert", ret_cert);
    t_path(dir, "key", ret_key);
    (void)snprintf(extension, sizeof(extension), "subjectAltName=%s", name);
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0) {
        return false;
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static quipu_status tls_ask(const char *ca_file, quipu_error *ret_error)
{
    quipu_part part = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("hi")};
    quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_provider *provider;
    quipu_status status;

    options.ca_file = quipu_cstr(ca_file);
    options.retries = -1;
    provider = peer_provider(QUIPU_PROVIDER_OPENAI, "ok", &options);
    request.contents = quipu_contents_of(&content, 1);
    status = quipu_model_generate(provider, &request, NULL, NULL, NULL, NULL, ret_error);
    quipu_provider_close(provider);
    return status;
}

static void unknown_certificate_is_refused_and_a_trusted_one_taken(void **state)
{
    char cert[T_PATH_MAX];
    char key[T_PATH_MAX];
    quipu_error error;

    (void)state;
    if (!tls_make("IP:127.0.0.1", cert, key)) {
        printf("SKIP: no openssl to make a certificate with\n");
        skip();
    }
    peer_start(cert, key);
    T_STATUS(tls_ask(NULL, &error), QUIPU_IO);
    assert_non_null(strstr(error.message, "certificate"));
    assert_int_equal(peer_count("ok"), 0); /* nothing was said to it, the key least of all */
    T_OK(tls_ask(cert, &error));
    assert_int_equal(peer_count("ok"), 1);
    peer_stop();
}

static void certificate_of_another_host_is_refused(void **state)
{
    char cert[T_PATH_MAX];
    char key[T_PATH_MAX];
    quipu_error error;

    (void)state;
    if (!tls_make("DNS:example.org", cert, key)) {
        printf("SKIP: no openssl to make a certificate with\n");
        skip();
    }
    peer_start(cert, key);
    T_STATUS(tls_ask(cert, &error), QUIPU_IO);
    assert_int_equal(peer_count("ok"), 0);
    peer_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_certificate_is_refused_and_a_trusted_one_taken),
        cmocka_unit_test(certificate_of_another_host_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
