/* The reading half of Anthropic's format, for its table. */
#ifndef QP_PROVIDER_ANTHROPIC_H
#define QP_PROVIDER_ANTHROPIC_H

#include "provider/wire.h"

quipu_status qp_anthropic_event(qp_wire_reader *reader, const qp_sse_event *event,
                                quipu_error *reterr);
quipu_status qp_anthropic_whole(qp_wire_reader *reader, qp_json_node root, quipu_error *reterr);

#endif
