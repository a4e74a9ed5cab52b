/* The walls between the tenants of a store. */
#ifndef QP_STORE_ROW_SECURITY_H
#define QP_STORE_ROW_SECURITY_H

#include "ent/row_security.h"

extern const qp_row_policy qp_store_row_policies[];
extern const size_t qp_store_row_policy_count;

#endif
