/* The walls between the tenants of a store. */
#ifndef QP_STORE_WALLS_H
#define QP_STORE_WALLS_H

#include "ent/wall.h"

extern const qp_wall qp_store_walls[];
extern const size_t qp_store_wall_count;

#endif
