/* The write-ahead log's own checksums, verified when a frame is read. SQLite computes them for each
 * frame and verifies them in recovery; a page that it reads from the log, or moves from there into
 * the file, it takes as it is.
 *
 * Owns: nothing; the log belongs to SQLite, and this file only reads it.
 * Called by: page_vfs.c, under the locks of SQLite's own read: the frame is committed, or belongs
 * to the transaction of this connection.
 *
 *   | header 32 | frame 1: header 24, page | frame 2: header 24, page | ...
 *
 * A frame's checksum continues that of the frame before it, which stands in that frame's header. So
 * one frame can be verified with two headers, without its predecessors' pages. The format is
 * documented in SQLite's "WAL-mode File Format". */
#include "ent_sqlite/page_frame.h"

#include <assert.h>

#include "ent_sqlite/page_seal.h"

#define PAGE_FRAME_LOG_HEADER QP_PAGE_LOG_HEADER
#define PAGE_FRAME_LOG_SUM_AT 24 /* in the log's header */
#define PAGE_FRAME_HEADER QP_PAGE_FRAME_HEADER
#define PAGE_FRAME_SUM_AT 16  /* in a frame's header */
#define PAGE_FRAME_COVERED 8  /* bytes of its header that the checksum covers */
#define PAGE_FRAME_BIG 0x83   /* last byte of the magic where words are big-endian; else 0x82 */
#define PAGE_FRAME_MAGIC_AT 3 /* of that byte */

/* The running checksum. */
typedef struct page_frame_sum {
    uint32_t a;
    uint32_t b;
} page_frame_sum;

static uint32_t page_frame_little(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | (uint32_t)p[0];
}

/* Over words of 32 bits, two at a time; `n` is a multiple of 8. Two loops instead of a choice in
 * one: it runs for each page that is read from a log. */
static page_frame_sum page_frame_add(page_frame_sum sum, bool big_endian, const uint8_t *p,
                                     size_t n)
{
    const uint8_t *end = p + n;

    assert(n % 8 == 0);
    if (big_endian) {
        for (; p < end; p += 8) {
            sum.a += qp_page_u32(p) + sum.b;
            sum.b += qp_page_u32(p + 4) + sum.a;
        }
    } else {
        for (; p < end; p += 8) {
            sum.a += page_frame_little(p) + sum.b;
            sum.b += page_frame_little(p + 4) + sum.a;
        }
    }
    return sum;
}

/* A stored checksum: big-endian, whatever its words are. */
static page_frame_sum page_frame_stored(const uint8_t *p)
{
    assert(p != NULL);
    return (page_frame_sum){qp_page_u32(p), qp_page_u32(p + 4)};
}

static bool page_frame_fits(page_frame_sum before, bool big_endian, const uint8_t *header,
                            const uint8_t *page, uint32_t page_size)
{
    const page_frame_sum expected = page_frame_stored(header + PAGE_FRAME_SUM_AT);
    page_frame_sum sum = page_frame_add(before, big_endian, header, PAGE_FRAME_COVERED);

    assert(page_size % 8 == 0);
    sum = page_frame_add(sum, big_endian, page, page_size);
    return sum.a == expected.a && sum.b == expected.b;
}

/* For log_owner.c, which looks at a log that nobody has open. */
bool qp_page_frame_continues(const uint8_t before[QP_PAGE_FRAME_SUM], const uint8_t *log_header,
                             const uint8_t *header, const uint8_t *page, uint32_t page_size)
{
    assert(before != NULL && log_header != NULL);
    return page_frame_fits(page_frame_stored(before),
                           log_header[PAGE_FRAME_MAGIC_AT] == PAGE_FRAME_BIG, header, page,
                           page_size);
}

/* The frame, from 1, whose page begins at `at`; 0: none does. */
static int64_t page_frame_of(uint32_t page_size, int size, int64_t at)
{
    const int64_t frame_size = (int64_t)page_size + PAGE_FRAME_HEADER;
    const int64_t offset = at - PAGE_FRAME_LOG_HEADER - PAGE_FRAME_HEADER;

    assert(at >= 0);
    return page_size > 0 && (uint32_t)size == page_size && offset >= 0 && offset % frame_size == 0
               ? offset / frame_size + 1
               : 0;
}

/* The checksum that the frame continues. */
static int page_frame_before(sqlite3_file *log, int64_t frame, int64_t at, uint32_t page_size,
                             page_frame_sum *ret)
{
    uint8_t sum[8];
    const int64_t place = frame == 1 ? PAGE_FRAME_LOG_SUM_AT
                                     : at - PAGE_FRAME_HEADER - (int64_t)page_size -
                                           PAGE_FRAME_HEADER + PAGE_FRAME_SUM_AT;
    int rc = log->pMethods->xRead(log, sum, sizeof(sum), place);

    assert(ret != NULL);
    if (rc == SQLITE_OK) {
        *ret = page_frame_stored(sum);
    }
    return rc;
}

/* The order of bytes is tried as it was last time; the log may have been made on another host, so
 * that its header is read before a frame counts as damaged. */
int qp_page_frame_check(qp_page_frames *frames, sqlite3_file *log, uint32_t page_size,
                        const uint8_t *bytes, int size, int64_t at, uint32_t *ret_page)
{
    const int64_t frame = page_frame_of(page_size, size, at);
    uint8_t header[PAGE_FRAME_HEADER];
    uint8_t magic = 0;
    page_frame_sum before = {0, 0};
    int rc;

    assert(ret_page != NULL);
    if (frame == 0 || (frames->rewritten > 0 && frame >= frames->rewritten)) {
        return SQLITE_OK;
    }
    rc = log->pMethods->xRead(log, header, sizeof(header), at - PAGE_FRAME_HEADER);
    if (rc == SQLITE_OK) {
        rc = page_frame_before(log, frame, at, page_size, &before);
    }
    if (rc != SQLITE_OK || page_frame_fits(before, frames->big_endian, header, bytes, page_size)) {
        return rc;
    }
    rc = log->pMethods->xRead(log, &magic, 1, PAGE_FRAME_MAGIC_AT);
    if (rc == SQLITE_OK && (magic == PAGE_FRAME_BIG) != frames->big_endian) {
        frames->big_endian = magic == PAGE_FRAME_BIG;
        if (page_frame_fits(before, frames->big_endian, header, bytes, page_size)) {
            return SQLITE_OK;
        }
    }
    *ret_page = qp_page_u32(header);
    *ret_page = *ret_page > 0 ? *ret_page : 1; /* the number itself may be damaged */
    return rc == SQLITE_OK ? SQLITE_CORRUPT : rc;
}

/* A transaction that does not fit the page cache writes pages to the log before it commits, and may
 * write them again in place, without their header. SQLite then computes the checksums of that frame
 * and of all behind it at COMMIT; until then they do not fit. */
void qp_page_frame_written(qp_page_frames *frames, uint32_t page_size, int size, int64_t at)
{
    const int64_t frame_size = (int64_t)page_size + PAGE_FRAME_HEADER;
    const int64_t frame = page_frame_of(page_size, size, at);

    assert(frames->rewritten >= 0);
    if (size == PAGE_FRAME_HEADER && page_size > 0 && at >= PAGE_FRAME_LOG_HEADER &&
        (at - PAGE_FRAME_LOG_HEADER) % frame_size == 0) {
        frames->header = (at - PAGE_FRAME_LOG_HEADER) / frame_size + 1;
    } else if (frame > 0 && frame != frames->header &&
               (frames->rewritten == 0 || frame < frames->rewritten)) {
        frames->rewritten = frame;
    }
}

void qp_page_frames_committed(qp_page_frames *frames)
{
    assert(frames != NULL);
    frames->rewritten = 0;
    frames->header = 0;
}
