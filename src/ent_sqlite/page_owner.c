/* The owner of a damaged page, for the sentence that reports it. Walks the b-trees of the file from
 * their roots, which the schema names, until one of them has the page. SQLite's dbstat table would
 * know it, too, but many builds lack it.
 *
 * Owns: a list of pages to visit, freed before the call returns.
 * Called by: error.c and maintenance.c, after a page failed; the connection may be inside of a
 * transaction and of a statement.
 * Reads the main file without verifying it and without the log: the name is the best that is known,
 * and every number that comes from a page is checked before it is used.
 *
 * Two rounds. The first looks at the trees only: the pages above the leaves name the leaves, so
 * that no leaf is read. The second reads the leaves, for the overflow pages of large values. */
#include "ent_sqlite/page_owner.h"

#include <assert.h>
#include <stdio.h>

#include "base/alloc.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"

#define PAGE_OWNER_DEPTH_MAX 24 /* SQLite's own limit is 20 */
/* The first byte of a b-tree page, by SQLite's file format; inner pages name their children. */
#define PAGE_OWNER_INDEX_INNER 2
#define PAGE_OWNER_TABLE_INNER 5 /* rowids only, no payload */
#define PAGE_OWNER_INDEX_LEAF 10
#define PAGE_OWNER_TABLE_LEAF 13 /* the rows */

/* One search. */
typedef struct page_owner {
    sqlite3 *db;         /* borrowed */
    uint32_t wanted;     /* the page whose owner is asked for */
    uint32_t page_size;  /* in bytes */
    uint32_t usable;     /* bytes of a page that SQLite uses */
    bool overflow;       /* the second round */
    uint32_t reads;      /* of this round; at most QP_PAGE_OWNER_READS_MAX */
    uint8_t *page;       /* page_size bytes: the page that is looked at */
    uint8_t *chain;      /* page_size bytes: an overflow page */
    uint32_t *pages;     /* a tree's pages; QP_PAGE_OWNER_READS_MAX of them */
    uint8_t *depth;      /* of each */
    uint32_t page_count; /* of `pages` and of `depth` */
} page_owner;

/* One page as the file has it. False: it cannot be read, or the round has read its number of pages,
 * so that a damaged tree, even one that leads back to itself, ends the search. */
static bool page_owner_read(page_owner *self, uint32_t number, uint8_t *page)
{
    assert(page != NULL);
    return number > 0 && self->reads++ < QP_PAGE_OWNER_READS_MAX &&
           qp_page_vfs_read_raw(self->db, number, self->page_size, page) == SQLITE_OK;
}

/* Where the b-tree header of a page begins: page 1 has the file's header before it. */
static uint32_t page_owner_start(uint32_t number)
{
    assert(number > 0);
    return number == 1 ? QP_PAGE_HEADER : 0;
}

static bool page_owner_is_inner(uint8_t type)
{
    assert(PAGE_OWNER_INDEX_INNER != PAGE_OWNER_TABLE_INNER);
    return type == PAGE_OWNER_INDEX_INNER || type == PAGE_OWNER_TABLE_INNER;
}

/* A variable-length integer that must end before `end`; *at moves behind it. */
static uint64_t page_owner_varint(const uint8_t *page, uint32_t *at, uint32_t end)
{
    uint64_t value = 0;

    assert(page != NULL);
    for (int i = 0; i < 9 && *at < end; i++) {
        uint8_t byte = page[(*at)++];
        /* The ninth byte has eight bits of the value, all others seven and a flag. */
        if (i == 8) {
            return value << 8 | byte;
        }
        value = value << 7 | (byte & 0x7f);
        if ((byte & 0x80) == 0) {
            break;
        }
    }
    return value;
}

/* Where the cell at `at` names its first overflow page, or 0: its value fits the page. */
static uint32_t page_owner_overflow_at(const page_owner *self, uint8_t type, uint32_t at)
{
    /* The file format's rules for how many bytes of a value stay on the page. */
    const bool table = type == PAGE_OWNER_TABLE_LEAF;
    const uint64_t usable = self->usable;
    const uint64_t most = table ? usable - 35 : (usable - 12) * 64 / 255 - 23;
    const uint64_t least = (usable - 12) * 32 / 255 - 23;
    uint64_t payload;
    uint64_t local;

    assert(self->usable >= 480 - QP_PAGE_RESERVE);
    if (type == PAGE_OWNER_TABLE_INNER) {
        return 0;
    }
    /* A cell of an inner page begins with the number of a child. */
    at += type == PAGE_OWNER_INDEX_INNER ? 4 : 0;
    payload = page_owner_varint(self->page, &at, self->usable);
    if (table) {
        (void)page_owner_varint(self->page, &at, self->usable); /* the rowid */
    }
    if (payload <= most) {
        return 0;
    }
    local = least + (payload - least) % (usable - 4);
    local = local <= most ? local : least;
    return at + local + 4 <= usable ? at + (uint32_t)local : 0;
}

/* Whether the wanted page is in a chain of overflow pages; each begins with its successor. */
static bool page_owner_in_chain(page_owner *self, uint32_t number)
{
    assert(self->overflow);
    /* 0 ends a chain; the limit of reads ends one that leads back to itself. */
    while (number != 0 && number != self->wanted && page_owner_read(self, number, self->chain)) {
        number = qp_page_u32(self->chain);
    }
    return number == self->wanted;
}

/* Adds a page of the tree; true: it is the wanted one. */
static bool page_owner_add(page_owner *self, uint32_t number, uint8_t depth)
{
    assert(self->page_count <= QP_PAGE_OWNER_READS_MAX);
    /* Pages beyond the limit are compared, but their children are not searched. */
    if (self->page_count < QP_PAGE_OWNER_READS_MAX) {
        self->depth[self->page_count] = depth;
        self->pages[self->page_count++] = number;
    }
    return number == self->wanted;
}

/* Looks at the page that was read: adds its children, follows its overflow chains. True: found. */
static bool page_owner_look(page_owner *self, uint32_t number, uint8_t depth)
{
    const uint32_t start = page_owner_start(number);
    const uint8_t type = self->page[start];
    const bool inner = page_owner_is_inner(type);
    const uint32_t cells = qp_page_u16(self->page + start + 3);
    const uint32_t pointers = start + (inner ? 12 : 8);
    bool found = false;

    assert(depth <= PAGE_OWNER_DEPTH_MAX);
    /* No page of a b-tree, or one with more cells than it has room for: damaged, too. */
    if ((!inner && type != PAGE_OWNER_TABLE_LEAF && type != PAGE_OWNER_INDEX_LEAF) ||
        pointers + 2 * cells > self->usable) {
        return false;
    }
    for (uint32_t i = 0; i < cells && !found; i++) {
        const uint32_t at = qp_page_u16(self->page + pointers + (size_t)2 * i);
        if (at + 4 > self->usable) {
            continue;
        }
        if (inner) {
            found = page_owner_add(self, qp_page_u32(self->page + at), depth);
        }
        if (self->overflow && !found) {
            const uint32_t first = page_owner_overflow_at(self, type, at);
            found = first != 0 && page_owner_in_chain(self, qp_page_u32(self->page + first));
        }
    }
    /* The last child of an inner page stands in its header, not in a cell. */
    return found || (inner && page_owner_add(self, qp_page_u32(self->page + start + 8), depth));
}

/* How many levels a tree has, by its last pages; all leaves lie on one level. */
static uint8_t page_owner_depth(page_owner *self, uint32_t root)
{
    uint8_t depth = 0;
    uint32_t number = root;

    assert(root > 0);
    /* Down the last children, whose numbers stand in the headers. */
    while (depth < PAGE_OWNER_DEPTH_MAX && page_owner_read(self, number, self->page) &&
           page_owner_is_inner(self->page[page_owner_start(number)])) {
        number = qp_page_u32(self->page + page_owner_start(number) + 8);
        depth++;
    }
    return depth;
}

/* Whether a tree has the page. In the first round the leaves are only compared. */
static bool page_owner_in_tree(page_owner *self, uint32_t root)
{
    const uint8_t leaves = page_owner_depth(self, root);
    bool found;

    self->page_count = 0;
    found = page_owner_add(self, root, 0);
    assert(self->page_count == 1);
    /* Level by level: page_owner_look() appends the children to the list that is walked. */
    for (uint32_t i = 0; i < self->page_count && !found; i++) {
        const uint8_t depth = self->depth[i];
        if ((depth < leaves || (self->overflow && depth == leaves)) &&
            page_owner_read(self, self->pages[i], self->page)) {
            found = page_owner_look(self, self->pages[i], (uint8_t)(depth + 1));
        }
    }
    return found;
}

/* One round over all trees; the schema's own comes first. */
static bool page_owner_round(page_owner *self, char ret[QP_PAGE_OWNER_SIZE])
{
    sqlite3_stmt *stmt = NULL;
    /* sqlite_schema begins at page 1, and no row of it says so. */
    bool found = page_owner_in_tree(self, 1);

    assert(ret != NULL);
    if (found) {
        (void)snprintf(ret, QP_PAGE_OWNER_SIZE, "the schema");
        return true;
    }
    if (sqlite3_prepare_v2(self->db,
                           "SELECT type = 'index', name, tbl_name, rootpage "
                           "FROM main.sqlite_schema WHERE rootpage > 0",
                           -1, &stmt, NULL) != SQLITE_OK) {
        return false;
    }
    while (!found && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 1);
        const char *table = (const char *)sqlite3_column_text(stmt, 2);
        if (name == NULL || table == NULL) {
            continue;
        }
        found = page_owner_in_tree(self, (uint32_t)sqlite3_column_int64(stmt, 3));
        if (found && sqlite3_column_int(stmt, 0) != 0) {
            (void)snprintf(ret, QP_PAGE_OWNER_SIZE, "index \"%s\" of table \"%s\"", name, table);
        } else if (found) {
            (void)snprintf(ret, QP_PAGE_OWNER_SIZE, "table \"%s\"", name);
        }
    }
    (void)sqlite3_finalize(stmt);
    return found;
}

bool qp_page_owner(sqlite3 *db, uint32_t number, char ret[QP_PAGE_OWNER_SIZE])
{
    qp_page_state state = {0};
    page_owner self = {.db = db, .wanted = number};
    bool found = false;

    assert(number > 0);
    if (!qp_page_vfs_state(db, &state) || state.page_size < QP_PAGE_SIZE_MIN) {
        return false;
    }
    self.page_size = state.page_size;
    /* A sealed page ends with its checksum, which is not part of the b-tree. */
    self.usable = state.page_size - (state.sealed ? QP_PAGE_RESERVE : 0);
    self.page = qp_malloc(state.page_size);
    self.chain = qp_malloc(state.page_size);
    self.pages = qp_malloc(QP_PAGE_OWNER_READS_MAX * sizeof(*self.pages));
    self.depth = qp_malloc(QP_PAGE_OWNER_READS_MAX);
    if (self.page != NULL && self.chain != NULL && self.pages != NULL && self.depth != NULL) {
        found = page_owner_round(&self, ret);
        /* The second round may read as many pages as the first. */
        self.overflow = true;
        self.reads = 0;
        found = found || page_owner_round(&self, ret);
    }
    qp_free(self.depth);
    qp_free(self.pages);
    qp_free(self.chain);
    qp_free(self.page);
    return found;
}
