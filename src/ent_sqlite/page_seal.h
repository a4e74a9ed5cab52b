/* The trailer that a page of our files carries, and page 1's form on the disk: pure functions over
 * one page's bytes. docs/decisions/0028-page-checksums.md says why.
 *
 *   a page of P bytes          P-48      P-40                    P-8
 *   | what SQLite stores ...    | mark    | file id (8), 0 (24)   | checksum |
 *   encrypted: see crypt.c     | blind   | nonce (24), tag (16)             |
 *
 * The checksum covers everything before it and the page's number, so that a page that was written
 * to another page's place is found, too. The file's id finds a page of another file in the same
 * place. It is random, chosen when the file is made, and 0 in files of earlier versions. */
#ifndef QP_ENT_SQLITE_PAGE_SEAL_H
#define QP_ENT_SQLITE_PAGE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QP_PAGE_RESERVE 48     /* bytes at the end of a page that SQLite leaves alone */
#define QP_PAGE_MARK 8         /* bytes at the trailer's begin: whose it is and in which state */
#define QP_PAGE_SUM 8          /* bytes at its end */
#define QP_PAGE_HEADER 100     /* bytes of SQLite's file header, at the begin of page 1 */
#define QP_PAGE_SIZE_MIN 512   /* of SQLite's page sizes */
#define QP_PAGE_SIZE_MAX 65536 /* of SQLite's page sizes */

/* SQLite's files are big-endian. */
static inline uint32_t qp_page_u16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t qp_page_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

/* The state of a page. */
typedef enum qp_page_verdict {
    QP_PAGE_FITS,     /* the checksum fits */
    QP_PAGE_STALE,    /* page 1 only: it fits, and says that another program wrote to the file */
    QP_PAGE_UNSEALED, /* a program without checksums moved it from our log into the file */
    QP_PAGE_FOREIGN,  /* page 1 only: a program without checksums wrote it */
    QP_PAGE_WRONG     /* the checksum does not fit */
} qp_page_verdict;

/* The state of a file header. */
typedef struct qp_page_header {
    bool valid; /* SQLite's magic and a possible page size */
    uint32_t page_size;
    uint32_t reserve;
    bool hides_size;  /* page 1 has the form that only qp_page_seal() writes */
    uint32_t counter; /* SQLite's change counter */
    bool logs;        /* write-ahead logging, by the file's format version */
} qp_page_header;

/* The checksum of a page: four lanes over words of 8 bytes. A wrong page number is always found,
 * any error in the bytes with probability 1 - 2^-64. `size` counts the checksum's own bytes. */
uint64_t qp_page_sum(const uint8_t *page, size_t size, uint32_t number);

/* Completes the trailer, as the last thing before the page goes to the file. `stale`: page 1 goes
 * on saying that another program wrote to the file. `file_id`: 0 where the file has none. */
void qp_page_seal(uint8_t *page, size_t size, uint32_t number, bool stale, uint64_t file_id);

/* The id of the file that a page was written for; 0: none. */
uint64_t qp_page_file_id(const uint8_t *page, size_t size);

/* Judges a page as it came from the file; changes nothing. */
qp_page_verdict qp_page_judge(const uint8_t *page, size_t size, uint32_t number);

/* Turns a page from the file into what SQLite gets: the mark says "unsealed", the checksum is 0,
 * and page 1 has its fields. So a page in our log never looks sealed. It keeps the file's id: the
 * log needs it when a crash tears page 1, and shows by it whose log it is (log_owner.c). */
void qp_page_open(uint8_t *page, size_t size, uint32_t number);

/* Whether the trailer may be overwritten: it has a mark, or only zeros. */
bool qp_page_has_room(const uint8_t *page, size_t size);

/* Whether quipu wrote the mark. `trailer` has QP_PAGE_RESERVE bytes. */
bool qp_page_is_marked(const uint8_t *trailer);

/* Writes the mark of a page that is open: in SQLite's cache and in our log. */
void qp_page_mark_unsealed(uint8_t *trailer);

/* Whether the trailer has only zeros, as pages that SQLite made and nobody sealed. */
bool qp_page_is_blank(const uint8_t *trailer);

/* Reads a file header, in either form. */
qp_page_header qp_page_header_read(const uint8_t *header);

/* Restores the fields of a header that hides them; else does nothing. */
void qp_page_header_open(uint8_t *header);

/* The number of pages that the header states, 0 where it states none. */
uint32_t qp_page_header_count(const uint8_t *header);

#endif
