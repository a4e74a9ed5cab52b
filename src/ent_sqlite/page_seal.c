/* Checksums of pages, and page 1's form in the file.
 *
 * Owns: the layout of the trailer. Has no state.
 * Called by: page_vfs.c, for each page between SQLite and the main file.
 *
 * Page 1 hides its size. A program without checksums that writes to the file leaves pages whose
 * checksum does not fit, and so does damage. The difference is in SQLite's change counter, but
 * in WAL mode a commit moves it only when it changes page 1. So page 1 in the file states a size
 * of 0 pages, at offset 28, which SQLite defines as "not known": a reader takes the size of the
 * file, and the first writing transaction of any program writes page 1 with the size and with a new
 * change counter. Our own connections never see this form: qp_page_open() restores the field.
 *
 *   offset   24       28              92
 *   SQLite   counter  pages           counter
 *   ours     counter  0               ~pages     (never equals the counter: see page_seal_hides())
 */
#include "ent_sqlite/page_seal.h"

#include <assert.h>
#include <string.h>

/* Header fields, all big-endian. */
#define PAGE_SEAL_SIZE_AT 16
#define PAGE_SEAL_WRITE_VERSION_AT 18
#define PAGE_SEAL_RESERVE_AT 20
#define PAGE_SEAL_COUNTER_AT 24
#define PAGE_SEAL_COUNT_AT 28
#define PAGE_SEAL_VALID_FOR_AT 92
#define PAGE_SEAL_LOGS 2 /* the file format version of write-ahead logging */

/* Odd constants with about as many ones as zeros: odd, because multiplying by them must lose no
 * bit. */
#define PAGE_SEAL_A UINT64_C(0x9fb21c651e98df25)
#define PAGE_SEAL_B UINT64_C(0xd6e8feb86659fd93)

/* Marks differ in many bits, so that no small damage turns one into another. */
static const uint8_t page_seal_sealed[QP_PAGE_MARK] = {'Q', 'P', 's', 'e', 'a', 'l', 0xd1, 1};
static const uint8_t page_seal_stale[QP_PAGE_MARK] = {'Q', 'P', 0x9a, 0x96, 'O', 0x93, 0x2e, 1};
static const uint8_t page_seal_unsealed[QP_PAGE_MARK] = {'Q', 'P', 0xe5, 'L', 0xb6, 'G', 0x47, 1};

/* Big endian, as all numbers of SQLite's file format. */
static void page_seal_put(uint8_t *p, uint32_t value)
{
    assert(p != NULL);
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

/* ---- the checksum ---------------------------------------------------------------------------- */

/* Little-endian on every host: a file may move. Compilers make one load of it. */
static uint64_t page_seal_word(const uint8_t *p)
{
    uint64_t word;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, p, sizeof(word));
#else
    word = 0;
    for (int i = 7; i >= 0; i--) {
        word = word << 8 | p[i];
    }
#endif
    return word;
}

/* One of four sums over every fourth word. `sum` alone would not see two flips of one bit that
 * cancel, nor words that change places; `mixed` adds each intermediate sum, in another rotation
 * each time, so that the highest bits do not drop out. Three instructions a word: it runs for each
 * page that is read. */
typedef struct page_seal_lane {
    uint64_t sum;
    uint64_t mixed;
} page_seal_lane;

/* Sums catch changed words, the mixed sum their order. */
static void page_seal_add(page_seal_lane *lane, const uint8_t *word)
{
    lane->sum += page_seal_word(word);
    lane->mixed += lane->sum;
    lane->mixed = lane->mixed << 23 | lane->mixed >> 41;
}

/* One to one, and every bit depends on every bit. */
static uint64_t page_seal_spread(uint64_t x)
{
    x = (x ^ x >> 32) * PAGE_SEAL_A;
    x = (x ^ x >> 29) * PAGE_SEAL_B;
    return x ^ x >> 32;
}

/* The checksum so far, and a lane. One to one in each of them. */
static uint64_t page_seal_fold(uint64_t so_far, page_seal_lane lane)
{
    return page_seal_spread(page_seal_spread(so_far ^ lane.sum) + lane.mixed);
}

/* Page sizes are powers of two, so that what lies before the checksum is a number of whole words:
 * rounds of four, and three at the end. The lanes do not depend on each other, which is what a
 * processor can overlap. */
uint64_t qp_page_sum(const uint8_t *page, size_t size, uint32_t number)
{
    const uint8_t *const end = page + size - 32;
    page_seal_lane a = {0, 0};
    page_seal_lane b = {0, 0};
    page_seal_lane c = {0, 0};
    page_seal_lane d = {0, 0};
    uint64_t so_far = page_seal_spread(PAGE_SEAL_A ^ number);

    assert(size >= QP_PAGE_SIZE_MIN && size % 32 == 0);
    for (; page < end; page += 32) {
        page_seal_add(&a, page);
        page_seal_add(&b, page + 8);
        page_seal_add(&c, page + 16);
        page_seal_add(&d, page + 24);
    }
    page_seal_add(&a, page);
    page_seal_add(&b, page + 8);
    page_seal_add(&c, page + 16);
    so_far = page_seal_fold(page_seal_fold(so_far, a), b);
    return page_seal_fold(page_seal_fold(so_far, c), d);
}

/* ---- the header ------------------------------------------------------------------------------ */

/* ~pages equals the counter only in a file of 2^32 - 1 - counter pages, near SQLite's largest. */
static bool page_seal_hides(const uint8_t *header)
{
    assert(header != NULL);
    return qp_page_u32(header + PAGE_SEAL_COUNT_AT) == 0 &&
           qp_page_u32(header + PAGE_SEAL_VALID_FOR_AT) !=
               qp_page_u32(header + PAGE_SEAL_COUNTER_AT);
}

/* Whether page 1 is as SQLite's own commits leave it. */
static bool page_seal_is_plain(const uint8_t *header)
{
    assert(header != NULL);
    return qp_page_u32(header + PAGE_SEAL_COUNT_AT) != 0 &&
           qp_page_u32(header + PAGE_SEAL_VALID_FOR_AT) ==
               qp_page_u32(header + PAGE_SEAL_COUNTER_AT);
}

/* The parts of page 1 that decide about the others; `valid` is false for a file that is no
 * database. */
qp_page_header qp_page_header_read(const uint8_t *header)
{
    qp_page_header ret = {0};
    uint32_t size = qp_page_u16(header + PAGE_SEAL_SIZE_AT);

    size = size == 1 ? QP_PAGE_SIZE_MAX : size;
    ret.valid = memcmp(header, "SQLite format 3", 16) == 0 && size >= QP_PAGE_SIZE_MIN &&
                (size & (size - 1)) == 0;
    if (ret.valid) {
        ret.page_size = size;
        ret.reserve = header[PAGE_SEAL_RESERVE_AT];
        ret.hides_size = page_seal_hides(header);
        ret.counter = qp_page_u32(header + PAGE_SEAL_COUNTER_AT);
        ret.logs = header[PAGE_SEAL_WRITE_VERSION_AT] == PAGE_SEAL_LOGS;
    }
    return ret;
}

/* SQLite sees the header as it would have written it: the hidden size is put back. */
void qp_page_header_open(uint8_t *header)
{
    if (page_seal_hides(header)) {
        page_seal_put(header + PAGE_SEAL_COUNT_AT, ~qp_page_u32(header + PAGE_SEAL_VALID_FOR_AT));
        memcpy(header + PAGE_SEAL_VALID_FOR_AT, header + PAGE_SEAL_COUNTER_AT, 4);
        assert(!page_seal_hides(header));
    }
}

/* How many pages the file has by its header; 0: the header does not say. */
uint32_t qp_page_header_count(const uint8_t *header)
{
    assert(header != NULL);
    if (page_seal_hides(header)) {
        return ~qp_page_u32(header + PAGE_SEAL_VALID_FOR_AT);
    }
    return page_seal_is_plain(header) ? qp_page_u32(header + PAGE_SEAL_COUNT_AT) : 0;
}

/* A header that states no valid size keeps its form: nothing could be restored from it. */
static void page_seal_hide(uint8_t *header)
{
    if (page_seal_is_plain(header)) {
        page_seal_put(header + PAGE_SEAL_VALID_FOR_AT, ~qp_page_u32(header + PAGE_SEAL_COUNT_AT));
        page_seal_put(header + PAGE_SEAL_COUNT_AT, 0);
        assert(page_seal_hides(header));
    }
}

/* ---- a page ---------------------------------------------------------------------------------- */

/* Any of the three marks: sealed, stale, unsealed. */
bool qp_page_is_marked(const uint8_t *trailer)
{
    assert(trailer != NULL);
    return memcmp(trailer, page_seal_sealed, QP_PAGE_MARK) == 0 ||
           memcmp(trailer, page_seal_stale, QP_PAGE_MARK) == 0 ||
           memcmp(trailer, page_seal_unsealed, QP_PAGE_MARK) == 0;
}

void qp_page_mark_unsealed(uint8_t *trailer)
{
    assert(trailer != NULL);
    memcpy(trailer, page_seal_unsealed, QP_PAGE_MARK);
}

/* As SQLite leaves the reserve of a page that it has just made. */
bool qp_page_is_blank(const uint8_t *trailer)
{
    static const uint8_t none[QP_PAGE_RESERVE];

    assert(trailer != NULL);
    return memcmp(trailer, none, QP_PAGE_RESERVE) == 0;
}

/* A trailer with anything else in it belongs to somebody: it is never overwritten. */
bool qp_page_has_room(const uint8_t *page, size_t size)
{
    const uint8_t *trailer = page + size - QP_PAGE_RESERVE;

    assert(size >= QP_PAGE_SIZE_MIN);
    return qp_page_is_marked(trailer) || qp_page_is_blank(trailer);
}

/* Read only behind a mark: any other trailer is another program's. */
uint64_t qp_page_file_id(const uint8_t *page, size_t size)
{
    const uint8_t *trailer = page + size - QP_PAGE_RESERVE;

    assert(size >= QP_PAGE_SIZE_MIN);
    return qp_page_is_marked(trailer) ? page_seal_word(trailer + QP_PAGE_MARK) : 0;
}

/* Little-endian, as page_seal_word() reads it. */
static void page_seal_put_word(uint8_t *p, uint64_t word)
{
    assert(p != NULL);
    for (int i = 0; i < 8; i++) {
        p[i] = (uint8_t)(word >> 8 * i);
    }
}

/* The mark and the file's id first, then the sum over everything, these included. */
void qp_page_seal(uint8_t *page, size_t size, uint32_t number, bool stale, uint64_t file_id)
{
    uint8_t *trailer = page + size - QP_PAGE_RESERVE;

    assert(qp_page_has_room(page, size));
    assert(!stale || number == 1);
    memset(trailer, 0, QP_PAGE_RESERVE);
    memcpy(trailer, stale ? page_seal_stale : page_seal_sealed, QP_PAGE_MARK);
    page_seal_put_word(trailer + QP_PAGE_MARK, file_id);
    if (number == 1) {
        page_seal_hide(page);
    }
    page_seal_put_word(page + size - QP_PAGE_SUM, qp_page_sum(page, size, number));
}

/* The sum decides; the mark says what kind of page it is. Page 1 without a fitting sum is another
 * program's write if its header is plain. */
qp_page_verdict qp_page_judge(const uint8_t *page, size_t size, uint32_t number)
{
    const uint8_t *trailer = page + size - QP_PAGE_RESERVE;
    const uint64_t sum = qp_page_sum(page, size, number);

    assert(number > 0);
    if (page_seal_word(page + size - QP_PAGE_SUM) == sum) {
        if (memcmp(trailer, page_seal_sealed, QP_PAGE_MARK) == 0) {
            return QP_PAGE_FITS;
        }
        if (number == 1 && memcmp(trailer, page_seal_stale, QP_PAGE_MARK) == 0) {
            return QP_PAGE_STALE;
        }
    }
    if (number == 1) {
        return page_seal_is_plain(page) ? QP_PAGE_FOREIGN : QP_PAGE_WRONG;
    }
    return memcmp(trailer, page_seal_unsealed, QP_PAGE_MARK) == 0 ? QP_PAGE_UNSEALED
                                                                  : QP_PAGE_WRONG;
}

/* On the way to SQLite, and from there into the log. A program without this layer that moves the
 * page from the log into the file leaves the mark: the page is unsealed then, and not damaged. */
void qp_page_open(uint8_t *page, size_t size, uint32_t number)
{
    uint8_t *trailer = page + size - QP_PAGE_RESERVE;
    const uint64_t file_id = qp_page_file_id(page, size);

    assert(size >= QP_PAGE_SIZE_MIN && number > 0);
    memset(trailer, 0, QP_PAGE_RESERVE);
    memcpy(trailer, page_seal_unsealed, QP_PAGE_MARK);
    page_seal_put_word(trailer + QP_PAGE_MARK, file_id);
    if (number == 1) {
        qp_page_header_open(page);
    }
}
