/* Temporary files without a name. */
#ifndef QP_BASE_TEMP_FILE_H
#define QP_BASE_TEMP_FILE_H

#include <stdio.h>

/* A new file in $TMPDIR, else in /tmp, to be written and read; closing it frees its space.
 * tmpfile() does not look at $TMPDIR, and programs that this one starts would get the descriptor.
 * NULL: errno says why. */
FILE *qp_temp_file(void);

#endif
