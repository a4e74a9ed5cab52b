/* Which rows belong to which tenant: the policies of all entities, for engines with row-level
 * security. Read by src/front when it opens a store on such an engine; constant. */
#ifndef QP_STORE_ROW_SECURITY_H
#define QP_STORE_ROW_SECURITY_H

#include "ent/row_security.h"

extern const qp_row_policy qp_store_row_policies[];
extern const size_t qp_store_row_policy_count;

#endif
