/* The structs that views.ent shows fields in. */
#ifndef VIEWS_API_H
#define VIEWS_API_H

#include <quipu/base.h>

typedef enum thing_kind { THING_BIG = 1, THING_SMALL } thing_kind;

typedef struct thing_info {
    quipu_str name;
    quipu_str remark;
    quipu_json data;
    quipu_bytes raw;
    bool has_owner;
    quipu_uuid owner_id;
    bool was_seen;
    bool is_seen;
    quipu_time seen_at;
    quipu_time made_at;
    int64_t size;
    bool has_weight;
    double weight;
    bool done;
    thing_kind kind;
    bool is_part;
    quipu_str whole_name;
    quipu_str whole_remark;
} thing_info;

typedef struct thing_new {
    quipu_str name;
    quipu_str remark;
    quipu_json data;
    int64_t size;
} thing_new;

#define THING_SET_NAME 1u
#define THING_SET_NOTE 2u
#define THING_SET_DONE 4u

typedef struct thing_change {
    uint32_t set;
    quipu_str name;
    quipu_str remark;
    bool done;
} thing_change;

typedef enum thing_size { THING_TINY = 1, THING_HUGE } thing_size;
typedef enum thing_colour { THING_RED = 1 } thing_colour;

/* A list, as QUIPU_SLICE makes one. */
typedef struct thing_parts {
    const void *items;
    size_t count;
    size_t item_size;
} thing_parts;

typedef struct thing_both {
    quipu_str name;
    quipu_str note;
    quipu_str place;
    thing_parts parts;
    int64_t count;
    bool has_owner;
    quipu_uuid owner_id;
    thing_kind kind;
    thing_size size;
    thing_colour colour;
} thing_both;

typedef struct thing_go {
    quipu_str title;
} thing_go;

#endif
