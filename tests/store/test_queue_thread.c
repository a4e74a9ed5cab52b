/* The queue with callers that sleep in it: they lead in the order in which they came, leave at
 * their deadline or when they are cancelled, and each is answered once. Runs under TSan. */
#include "lib/t.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "store/queue.h"
#include "store/store.h"

#define CALLERS_MAX 255

static void nap(void)
{
    const struct timespec ms = {0, 1000000};

    (void)nanosleep(&ms, NULL);
}

/* ---- callers ----------------------------------------------------------------------------------
 */

typedef struct caller {
    qp_queue *queue;
    qp_call call;
    qp_write write;
    quipu_error err;
    pthread_t thread;
    atomic_bool leads; /* it was handed the lead, */
    atomic_bool go_on; /* and gives it back when this is set */
    atomic_bool done;
    int answers;
} caller;

static void *caller_run(void *arg)
{
    caller *self = arg;

    if (qp_queue_enter(self->queue, &self->write)) {
        atomic_store(&self->leads, true);
        while (!atomic_load(&self->go_on)) {
            nap();
        }
        self->write.status = QUIPU_OK;
        qp_queue_finish(self->queue, &self->write);
    }
    self->answers++;
    atomic_store(&self->done, true);
    return NULL;
}

static size_t queued(qp_queue *queue)
{
    size_t n = 0;

    qp_mutex_lock(&queue->mutex);
    for (const qp_write *write = queue->head; write != NULL; write = write->next) {
        n++;
    }
    qp_mutex_unlock(&queue->mutex);
    return n;
}

static void wait_queued(qp_queue *queue, size_t n)
{
    while (queued(queue) != n) {
        nap();
    }
}

static void prepare(qp_queue *queue, caller *self, int64_t deadline_ns)
{
    self->queue = queue;
    self->call.deadline_ns = deadline_ns;
    self->call.session = QUIPU_STR("k");
    self->write = (qp_write){
        .kind = QP_WRITE_CHANGE, .call = &self->call, .reterr = &self->err, .status = QUIPU_MISUSE};
}

/* Starts a caller and waits until it sleeps in the queue. */
static void start_in_turn(qp_queue *queue, caller *self, int64_t deadline_ns)
{
    const size_t before = queued(queue);

    prepare(queue, self, deadline_ns);
    assert_int_equal(pthread_create(&self->thread, NULL, caller_run, self), 0);
    wait_queued(queue, before + 1);
}

static void join(caller *self, quipu_status status)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    assert_int_equal(self->answers, 1);
    T_STATUS(self->write.status, status);
}

typedef struct world {
    qp_queue queue;
    qp_call call;
    qp_write own;
    caller callers[CALLERS_MAX];
} world;

static int setup(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    w->call = (qp_call){.deadline_ns = QP_NEVER, .session = QUIPU_STR("k")};
    w->own = (qp_write){.kind = QP_WRITE_CHANGE, .call = &w->call};
    T_OK(qp_queue_init(&w->queue, NULL));
    assert_true(qp_queue_enter(&w->queue, &w->own));
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;

    for (size_t i = 0; i < CALLERS_MAX; i++) {
        quipu_free(w->callers[i].call.cancel);
    }
    qp_queue_done(&w->queue);
    free(w);
    return 0;
}

/* Gives everybody in the batch an answer and ends it. */
static void answer(world *w)
{
    for (qp_write *write = w->own.next; write != NULL; write = write->next) {
        write->status = QUIPU_OK;
    }
    qp_queue_finish(&w->queue, &w->own);
}

static void take(world *w, size_t members)
{
    size_t count = 1;

    (void)qp_queue_take(&w->queue, &w->own, true, &count);
    assert_int_equal(count, 1 + members);
}

/* ---- order ------------------------------------------------------------------------------------
 */

/* One after the other is handed the lead; nobody else has it meanwhile. */
static void check_lead_in_order(caller *const *callers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while (!atomic_load(&callers[i]->leads)) {
            nap();
        }
        for (size_t j = i + 1; j < n; j++) {
            assert_false(atomic_load(&callers[j]->leads));
        }
        atomic_store(&callers[i]->go_on, true);
        join(callers[i], QUIPU_OK);
    }
}

static void callers_lead_in_the_order_in_which_they_came(void **state)
{
    world *w = *state;
    caller *order[5];

    for (size_t i = 0; i < 5; i++) {
        order[i] = &w->callers[i];
        start_in_turn(&w->queue, order[i], QP_NEVER);
    }
    qp_queue_finish(&w->queue, &w->own);
    check_lead_in_order(order, 5);
    assert_false(w->queue.led);
}

static void requeued_callers_lead_before_those_that_came_later(void **state)
{
    world *w = *state;
    caller *order[4];

    for (size_t i = 0; i < 4; i++) {
        order[i] = &w->callers[i];
        if (i == 2) {
            take(w, 2); /* the first two; the others come while the batch runs */
        }
        start_in_turn(&w->queue, order[i], QP_NEVER);
    }
    qp_queue_requeue(&w->queue, &w->own);
    qp_queue_finish(&w->queue, &w->own);
    check_lead_in_order(order, 4);
}

/* ---- leaving ----------------------------------------------------------------------------------
 */

/* The first, the middle or the last of three leaves: the other two keep their order, and somebody
 * who comes later finds the tail. */
static void check_leaves(world *w, size_t which)
{
    caller *order[3];
    size_t n = 0;

    memset(w->callers, 0, sizeof(w->callers));
    for (size_t i = 0; i < 3; i++) {
        caller *self = &w->callers[i];
        self->call.cancel = i == which ? quipu_cancel_new() : NULL;
        start_in_turn(&w->queue, self, QP_NEVER);
        if (i != which) {
            order[n++] = self;
        }
    }
    quipu_cancel_set(w->callers[which].call.cancel);
    join(&w->callers[which], QUIPU_CANCELLED);
    assert_int_equal(w->callers[which].err.status, QUIPU_CANCELLED);
    quipu_free(w->callers[which].call.cancel);
    w->callers[which].call.cancel = NULL;
    assert_int_equal(queued(&w->queue), 2);
    order[n] = &w->callers[3];
    start_in_turn(&w->queue, order[n++], QP_NEVER);
    qp_queue_finish(&w->queue, &w->own);
    check_lead_in_order(order, 3);
    assert_true(qp_queue_enter(&w->queue, &w->own));
}

static void a_caller_that_is_cancelled_leaves_from_every_place(void **state)
{
    for (size_t which = 0; which < 3; which++) {
        check_leaves(*state, which);
    }
    qp_queue_finish(&((world *)*state)->queue, &((world *)*state)->own);
}

static void a_caller_leaves_when_its_deadline_comes(void **state)
{
    world *w = *state;
    caller *order[1] = {&w->callers[0]};
    caller *late = &w->callers[1];

    start_in_turn(&w->queue, order[0], QP_NEVER);
    prepare(&w->queue, late, qp_clock_ns() + 20 * QP_NS_PER_MS);
    assert_int_equal(pthread_create(&late->thread, NULL, caller_run, late), 0);
    join(late, QUIPU_BUSY);
    assert_int_equal(late->err.status, QUIPU_BUSY);
    assert_false(atomic_load(&late->leads));
    qp_queue_finish(&w->queue, &w->own);
    check_lead_in_order(order, 1);
}

/* ---- taken past the deadline ------------------------------------------------------------------
 */

/* A member whose time is over sleeps on: its leader has it. */
static void take_past_its_deadline(world *w, caller *late)
{
    const int64_t deadline_ns = qp_clock_ns() + 1000 * QP_NS_PER_MS;

    start_in_turn(&w->queue, late, deadline_ns);
    take(w, 1);
    while (qp_clock_ns() <= deadline_ns + 5 * QP_NS_PER_MS) {
        nap();
    }
    assert_false(atomic_load(&late->done));
}

static void take_cancelled(world *w, caller *late)
{
    late->call.cancel = quipu_cancel_new();
    start_in_turn(&w->queue, late, QP_NEVER);
    take(w, 1);
    quipu_cancel_set(late->call.cancel);
    for (int i = 0; i < 50; i++) {
        nap(); /* so that it looks at the flag */
    }
    assert_false(atomic_load(&late->done));
}

static void a_caller_that_was_taken_gets_its_answer_also_when_it_was_cancelled(void **state)
{
    world *w = *state;

    take_cancelled(w, &w->callers[0]);
    answer(w);
    join(&w->callers[0], QUIPU_OK);
    assert_int_equal(w->callers[0].err.status, QUIPU_OK);
}

static void a_caller_that_is_requeued_past_its_deadline_leaves(void **state)
{
    world *w = *state;

    take_past_its_deadline(w, &w->callers[0]);
    qp_queue_requeue(&w->queue, &w->own);
    join(&w->callers[0], QUIPU_BUSY);
    assert_int_equal(w->callers[0].err.status, QUIPU_BUSY);
    assert_int_equal(queued(&w->queue), 0);
    qp_queue_finish(&w->queue, &w->own);
    assert_false(w->queue.led);
}

static void a_cancelled_caller_that_is_requeued_leaves(void **state)
{
    world *w = *state;

    take_cancelled(w, &w->callers[0]);
    qp_queue_requeue(&w->queue, &w->own);
    join(&w->callers[0], QUIPU_CANCELLED);
    assert_int_equal(queued(&w->queue), 0);
    qp_queue_finish(&w->queue, &w->own);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static void check_all_woken(world *w, size_t members)
{
    memset(w->callers, 0, sizeof(w->callers));
    for (size_t i = 0; i < members; i++) {
        start_in_turn(&w->queue, &w->callers[i], QP_NEVER);
    }
    take(w, members);
    answer(w);
    for (size_t i = 0; i < members; i++) {
        join(&w->callers[i], QUIPU_OK);
        assert_false(atomic_load(&w->callers[i].leads));
    }
    assert_false(w->queue.led);
    w->own.next = NULL;
    assert_true(qp_queue_enter(&w->queue, &w->own));
}

static void every_member_of_a_batch_is_woken(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 7, QUIPU_GROUP_MAX - 1};
    world *w = *state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_all_woken(w, sizes[i]);
    }
    qp_queue_finish(&w->queue, &w->own);
}

/* The members are woken though the next batch runs already. */
static void the_next_leader_does_not_wait_for_the_members_before_it(void **state)
{
    world *w = *state;

    start_in_turn(&w->queue, &w->callers[0], QP_NEVER);
    start_in_turn(&w->queue, &w->callers[1], QP_NEVER);
    take(w, 2);
    start_in_turn(&w->queue, &w->callers[2], QP_NEVER);
    answer(w);
    join(&w->callers[0], QUIPU_OK);
    join(&w->callers[1], QUIPU_OK);
    while (!atomic_load(&w->callers[2].leads)) {
        nap();
    }
    atomic_store(&w->callers[2].go_on, true);
    join(&w->callers[2], QUIPU_OK);
}

/* ---- waiting for more -------------------------------------------------------------------------
 */

static void *arrive_while_the_leader_waits(void *arg)
{
    caller *self = arg;
    bool waits = false;

    while (!waits) {
        qp_mutex_lock(&self->queue->mutex);
        waits = self->queue->waiting_for_more;
        qp_mutex_unlock(&self->queue->mutex);
    }
    return caller_run(self);
}

static void an_arrival_ends_the_leaders_wait(void **state)
{
    world *w = *state;
    int64_t wait_ns = 600 * QP_NS_PER_S;
    caller *comes = &w->callers[0];

    w->queue.expected_size = 2;
    prepare(&w->queue, comes, QP_NEVER);
    assert_int_equal(pthread_create(&comes->thread, NULL, arrive_while_the_leader_waits, comes), 0);
    qp_queue_wait_for_more(&w->queue, 1, &wait_ns);
    assert_true(wait_ns > 0 && wait_ns < 600 * QP_NS_PER_S);
    take(w, 1);
    answer(w);
    join(comes, QUIPU_OK);
}

/* ---- everything at once -----------------------------------------------------------------------
 */

#define WRITERS 8

typedef struct writer {
    world *w;
    uint64_t chance;
    int count;
    int64_t led;
    int64_t answered;
    int64_t left;
    int64_t failures;
    int64_t *inside; /* a counter without a lock: only leaders touch it */
} writer;

static void writer_lead(writer *self, qp_write *own)
{
    size_t count = 1;

    self->failures += (*self->inside)++ != 0;
    own->next = NULL;
    (void)qp_queue_take(&self->w->queue, own, true, &count);
    if (t_random_below(&self->chance, 4) == 0) {
        qp_queue_requeue(&self->w->queue, own);
    }
    for (qp_write *write = own; write != NULL; write = write->next) {
        write->status = QUIPU_OK;
    }
    self->failures += --(*self->inside) != 0;
    qp_queue_finish(&self->w->queue, own);
    self->led++;
}

static void *writer_run(void *arg)
{
    writer *self = arg;

    for (int i = 0; i < self->count; i++) {
        const bool hurries = t_random_below(&self->chance, 8) == 0;
        const qp_call call = {.deadline_ns = hurries ? qp_clock_ns() : QP_NEVER,
                              .session = QUIPU_STR("k")};
        qp_write own = {.kind = QP_WRITE_CHANGE, .call = &call, .status = QUIPU_MISUSE};

        if (qp_queue_enter(&self->w->queue, &own)) {
            writer_lead(self, &own);
        } else if (own.status == QUIPU_OK) {
            self->answered++;
        } else {
            self->failures += own.status != QUIPU_BUSY || !hurries;
            self->left++;
        }
    }
    return NULL;
}

static void whatever_callers_do_each_leads_or_is_answered_or_leaves(void **state)
{
    world *w = *state;
    writer writers[WRITERS];
    pthread_t threads[WRITERS];
    uint64_t chance = t_seed();
    int64_t inside = 0;
    int64_t total = 0;
    const int count = (int)t_count(2000, 50000);

    qp_queue_finish(&w->queue, &w->own);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] =
            (writer){.w = w, .chance = t_random(&chance), .count = count, .inside = &inside};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_run, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(writers[i].failures, 0);
        total += writers[i].led + writers[i].answered + writers[i].left;
    }
    assert_int_equal(total, (int64_t)WRITERS * count);
    assert_false(w->queue.led);
    assert_null(w->queue.head);
}

#define QUEUE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(callers_lead_in_the_order_in_which_they_came),
        QUEUE_TEST(requeued_callers_lead_before_those_that_came_later),
        QUEUE_TEST(a_caller_that_is_cancelled_leaves_from_every_place),
        QUEUE_TEST(a_caller_leaves_when_its_deadline_comes),
        QUEUE_TEST(a_caller_that_was_taken_gets_its_answer_also_when_it_was_cancelled),
        QUEUE_TEST(a_caller_that_is_requeued_past_its_deadline_leaves),
        QUEUE_TEST(a_cancelled_caller_that_is_requeued_leaves),
        QUEUE_TEST(every_member_of_a_batch_is_woken),
        QUEUE_TEST(the_next_leader_does_not_wait_for_the_members_before_it),
        QUEUE_TEST(an_arrival_ends_the_leaders_wait),
        QUEUE_TEST(whatever_callers_do_each_leads_or_is_answered_or_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
