/* Frames of SQLite's write-ahead log: verifies one when it is read. See page_frame.c. */
#ifndef QP_ENT_SQLITE_PAGE_FRAME_H
#define QP_ENT_SQLITE_PAGE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#define QP_PAGE_LOG_HEADER 32   /* bytes before the first frame */
#define QP_PAGE_FRAME_HEADER 24 /* bytes before a frame's page */
#define QP_PAGE_FRAME_SUM 8     /* bytes of a checksum, at the end of either header */

/* The state of one handle of a log; zeros at first. */
typedef struct qp_page_frames {
    bool big_endian;   /* the words of the checksum, by the log's header */
    int64_t header;    /* the frame, from 1, whose header this handle wrote last, or 0 */
    int64_t rewritten; /* the first frame of the transaction under way that was overwritten, or 0 */
} qp_page_frames;

/* Verifies what was read at `at` when it is the page of a frame; else does nothing. SQLITE_CORRUPT:
 * it does not fit; *ret_page is the page's number. Other codes: the log cannot be read. */
int qp_page_frame_check(qp_page_frames *frames, sqlite3_file *log, uint32_t page_size,
                        const uint8_t *bytes, int size, int64_t at, uint32_t *ret_page);

/* Whether a frame, its header and its page, continues a checksum: that of the frame before it, or
 * of the log's header. `log_header` says the order of bytes. */
bool qp_page_frame_continues(const uint8_t before[QP_PAGE_FRAME_SUM], const uint8_t *log_header,
                             const uint8_t *header, const uint8_t *page, uint32_t page_size);

/* Called before a write to the log. */
void qp_page_frame_written(qp_page_frames *frames, uint32_t page_size, int size, int64_t at);

/* The transaction has ended: every frame has its checksum. */
void qp_page_frames_committed(qp_page_frames *frames);

#endif
