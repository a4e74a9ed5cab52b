/* BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009),
 * with the weight of words that Lucene uses.
 *
 * Owns: nothing; pure functions. Called by: see bm25.h. */
#include "ent/bm25.h"

#include <assert.h>

#define BM25_SERIES 29 /* the last power of the logarithm's series: 16 digits */

/* The natural logarithm of a number of 1 or more, by the series of the inverse hyperbolic tangent:
 * every machine gets the same bits, which libm does not promise. */
static double bm25_log(double x)
{
    const double ln2 = 0.69314718055994530942;
    double sum = 0;
    int twos = 0;

    assert(x >= 1);
    while (x >= 2) {
        x /= 2;
        twos++;
    }
    const double z = (x - 1) / (x + 1);
    double power = z;
    for (int i = 1; i <= BM25_SERIES; i += 2) {
        sum += power / i;
        power *= z * z;
    }
    return 2 * sum + twos * ln2;
}

double qp_bm25_idf(int64_t with, int64_t all)
{
    assert(with >= 0 && with <= all);
    return bm25_log(1 + ((double)(all - with) + 0.5) / ((double)with + 0.5));
}

double qp_bm25_part(double k1, double b, double idf, double count, double relative)
{
    assert(count >= 0 && relative >= 0);
    return idf * count * (k1 + 1) / (count + k1 * (1 - b + b * relative));
}
