/* Which writes an encrypted log makes of SQLite's: a frame is one, and nothing waits that another
 * process may look for. The file below is bytes in memory. */
#include "lib/t.h"

#include <sqlite3.h>

#include "ent_sqlite/crypt_file.h"
#include "ent_sqlite/page_seal.h"

#define PAGE 512
#define LOG_HEADER 32
#define FRAME (QP_CRYPT_FRAME_HEADER + PAGE)
#define ROOM (QP_CRYPT_BLOCK + 4 * FRAME)

/* A file of the VFS below. */
typedef struct cl_file {
    sqlite3_file base;
    uint8_t bytes[ROOM];
    sqlite3_int64 size;
    int writes;
} cl_file;

static int cl_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    const cl_file *self = (const cl_file *)file;

    memset(to, 0, (size_t)size);
    if (at + size > self->size) {
        return SQLITE_IOERR_SHORT_READ;
    }
    memcpy(to, self->bytes + at, (size_t)size);
    return SQLITE_OK;
}

static int cl_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    cl_file *self = (cl_file *)file;

    assert_true(at >= 0 && at + size <= ROOM);
    memcpy(self->bytes + at, from, (size_t)size);
    self->size = at + size > self->size ? at + size : self->size;
    self->writes++;
    return SQLITE_OK;
}

static int cl_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    *ret = ((const cl_file *)file)->size;
    return SQLITE_OK;
}

static const sqlite3_io_methods cl_methods = {
    .iVersion = 1, .xRead = cl_read, .xWrite = cl_write, .xFileSize = cl_size};

static size_t cl_give(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    assert_true(size >= QP_CRYPT_KEY);
    memset(ret_key, 7, QP_CRYPT_KEY);
    return QP_CRYPT_KEY;
}

/* A main file of one page, and an empty log with its header. */
typedef struct cl_store {
    qp_keys *keys;
    qp_crypt_file *crypt;
    cl_file main_file;
    cl_file log;
} cl_store;

static void cl_begin(cl_store *self)
{
    uint8_t page[PAGE] = {'x'};
    uint8_t header[LOG_HEADER] = {0x37, 0x7f, 6, 0x82, [16] = 1, 2, 3, 4, 5, 6, 7, 8};

    memset(self, 0, sizeof(*self));
    self->main_file.base.pMethods = &cl_methods;
    self->log.base.pMethods = &cl_methods;
    T_OK(qp_keys_new(cl_give, NULL, false, &self->keys, NULL));
    self->crypt = qp_crypt_file_new();
    assert_non_null(self->crypt);
    assert_int_equal(qp_crypt_file_unlock(self->crypt, &self->main_file.base, self->keys, false),
                     QP_CRYPT_NEW);
    assert_int_equal(qp_crypt_main_write(self->crypt, &self->main_file.base, page, PAGE, 0),
                     SQLITE_OK);
    assert_int_equal(qp_crypt_log_write(self->crypt, &self->log.base, header, sizeof(header), 0),
                     SQLITE_OK);
    self->log.writes = 0;
}

static void cl_end(cl_store *self)
{
    qp_crypt_file_free(self->crypt);
    qp_keys_free(self->keys);
}

static sqlite3_int64 cl_at(uint32_t frame)
{
    return LOG_HEADER + (sqlite3_int64)(frame - 1) * FRAME;
}

/* As SQLite's walWriteOneFrame(): page `number`, salts, a checksum. */
static void cl_header(uint32_t number, uint8_t ret[QP_CRYPT_FRAME_HEADER])
{
    memset(ret, 0, QP_CRYPT_FRAME_HEADER);
    ret[3] = (uint8_t)number;
    for (int i = 8; i < QP_CRYPT_FRAME_HEADER; i++) {
        ret[i] = (uint8_t)(i < 16 ? i - 7 : 0x40 + i);
    }
}

static void cl_put_header(cl_store *self, uint32_t frame)
{
    uint8_t header[QP_CRYPT_FRAME_HEADER];

    cl_header(frame + 1, header);
    assert_int_equal(
        qp_crypt_log_write(self->crypt, &self->log.base, header, sizeof(header), cl_at(frame)),
        SQLITE_OK);
}

static void cl_put_page(cl_store *self, uint32_t frame, uint8_t content)
{
    uint8_t page[PAGE] = {0};

    memset(page, content, PAGE - QP_PAGE_RESERVE);
    assert_int_equal(qp_crypt_log_write(self->crypt, &self->log.base, page, sizeof(page),
                                        cl_at(frame) + QP_CRYPT_FRAME_HEADER),
                     SQLITE_OK);
}

/* The frame is in the log: header and page as SQLite wrote them. */
static void cl_check_frame(cl_store *self, uint32_t frame, uint8_t content)
{
    uint8_t header[QP_CRYPT_FRAME_HEADER];
    uint8_t bytes[FRAME];
    uint32_t number = 0;

    cl_header(frame + 1, header);
    assert_int_equal(
        qp_crypt_log_read(self->crypt, &self->log.base, bytes, FRAME, cl_at(frame), &number),
        SQLITE_OK);
    assert_int_equal(number, frame + 1);
    assert_memory_equal(bytes, header, sizeof(header));
    for (size_t i = QP_CRYPT_FRAME_HEADER; i < FRAME - QP_PAGE_RESERVE; i++) {
        assert_int_equal(bytes[i], content);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_frame_is_one_write(void **state)
{
    cl_store self;

    (void)state;
    cl_begin(&self);
    cl_put_header(&self, 1);
    assert_int_equal(self.log.writes, 0);
    cl_put_page(&self, 1, 'a');
    assert_int_equal(self.log.writes, 1);
    cl_put_header(&self, 2);
    cl_put_page(&self, 2, 'b');
    assert_int_equal(self.log.writes, 2);
    cl_check_frame(&self, 1, 'a');
    cl_check_frame(&self, 2, 'b');
    cl_end(&self);
}

/* SQLite's walRewriteChecksums(): the commit becomes visible without another call about the log. */
static void headers_are_written_at_once_behind_a_page_that_was_overwritten(void **state)
{
    uint8_t header[LOG_HEADER] = {0x37, 0x7f, 6, 0x82, [16] = 1, 2, 3, 4, 5, 6, 7, 8};
    cl_store self;

    (void)state;
    cl_begin(&self);
    for (uint32_t frame = 1; frame <= 2; frame++) {
        cl_put_header(&self, frame);
        cl_put_page(&self, frame, 'a');
    }
    cl_put_page(&self, 1, 'c');
    assert_int_equal(self.log.writes, 3);
    cl_put_header(&self, 1);
    cl_put_header(&self, 2);
    assert_int_equal(self.log.writes, 5);
    cl_put_header(&self, 3);
    cl_put_page(&self, 3, 'd');
    assert_int_equal(self.log.writes, 7);
    cl_check_frame(&self, 1, 'c');
    cl_check_frame(&self, 2, 'a');
    cl_check_frame(&self, 3, 'd');
    assert_int_equal(qp_crypt_log_write(self.crypt, &self.log.base, header, sizeof(header), 0),
                     SQLITE_OK);
    cl_put_header(&self, 1); /* the log began anew: nothing in it was overwritten */
    assert_int_equal(self.log.writes, 8);
    cl_put_page(&self, 1, 'e');
    assert_int_equal(self.log.writes, 9);
    cl_check_frame(&self, 1, 'e');
    cl_end(&self);
}

static void a_header_does_not_wait_behind_any_other_call(void **state)
{
    uint8_t header[QP_CRYPT_FRAME_HEADER];
    uint8_t found[QP_CRYPT_FRAME_HEADER];
    uint32_t number = 0;
    cl_store self;

    (void)state;
    cl_begin(&self);
    cl_header(2, header);
    cl_put_header(&self, 1);
    assert_int_equal(qp_crypt_log_flush(self.crypt, &self.log.base), SQLITE_OK);
    assert_int_equal(self.log.writes, 1);
    assert_int_equal(qp_crypt_log_flush(self.crypt, &self.log.base), SQLITE_OK);
    assert_int_equal(self.log.writes, 1);
    cl_put_header(&self, 1);
    assert_int_equal(
        qp_crypt_log_read(self.crypt, &self.log.base, found, sizeof(found), cl_at(1), &number),
        SQLITE_OK);
    assert_int_equal(self.log.writes, 2);
    assert_memory_equal(found, header, sizeof(header));
    cl_put_header(&self, 1);
    cl_put_header(&self, 2);
    assert_int_equal(self.log.writes, 3);
    cl_put_page(&self, 2, 'b');
    assert_int_equal(self.log.writes, 4);
    cl_put_page(&self, 1, 'a');
    cl_check_frame(&self, 1, 'a');
    cl_check_frame(&self, 2, 'b');
    cl_end(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_one_write),
        cmocka_unit_test(headers_are_written_at_once_behind_a_page_that_was_overwritten),
        cmocka_unit_test(a_header_does_not_wait_behind_any_other_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
