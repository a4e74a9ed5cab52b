/* The queue in front of the writing connection, one step at a time: who leads, what a leader takes,
 * in which order, and up to which limit. One thread plays all callers: qp_queue_requeue() queues
 * writes whose callers do not sleep. What needs callers that sleep is in test_queue_thread.c. */
#include "lib/t.h"

#include "store/queue.h"
#include "store/store.h"

#define CROWD (QUIPU_GROUP_MAX + 44)
#define LEAD 1U     /* what queue.c wakes a new leader with, */
#define ANSWERED 2U /* and a member whose batch is done */

typedef struct world {
    qp_queue queue;
    qp_write own; /* leads */
    qp_write writes[CROWD];
    qp_call session; /* of a write to one session */
    qp_call store;   /* of one that concerns more */
} world;

static int setup(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    w->session = (qp_call){.deadline_ns = QP_NEVER, .session = QUIPU_STR("k")};
    w->store = (qp_call){.deadline_ns = QP_NEVER};
    w->own = (qp_write){.kind = QP_WRITE_CHANGE, .call = &w->session};
    for (size_t i = 0; i < CROWD; i++) {
        w->writes[i] = (qp_write){.kind = QP_WRITE_CHANGE, .call = &w->session};
    }
    T_OK(qp_queue_init(&w->queue, NULL));
    assert_true(qp_queue_enter(&w->queue, &w->own));
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;

    w->queue.head = w->queue.tail = NULL; /* nobody sleeps there */
    w->queue.led = false;
    qp_queue_done(&w->queue);
    free(w);
    return 0;
}

/* Queues writes `from` to `to` - 1, before those that are there. */
static void queue_writes(world *w, size_t from, size_t to)
{
    qp_write *last = &w->own;

    for (size_t i = from; i < to; i++) {
        last->next = &w->writes[i];
        last = last->next;
    }
    last->next = NULL;
    qp_queue_requeue(&w->queue, &w->own);
}

static size_t queued(const world *w)
{
    size_t n = 0;

    for (const qp_write *write = w->queue.head; write != NULL; write = write->next) {
        assert_true(write->queued);
        assert_true(write->next != NULL || write == w->queue.tail);
        n++;
    }
    assert_true(n > 0 || w->queue.tail == NULL);
    return n;
}

/* The leader takes `n` writes: number `first` and those behind it. */
static void check_takes(world *w, bool single_session, size_t first, size_t n)
{
    size_t count = 1;
    const qp_write *last = qp_queue_take(&w->queue, &w->own, single_session, &count);
    const qp_write *write = w->own.next;

    assert_int_equal(count, 1 + n);
    for (size_t i = first; i < first + n; i++) {
        assert_ptr_equal(write, &w->writes[i]);
        assert_false(write->queued);
        write = write->next;
    }
    assert_null(write);
    assert_ptr_equal(last, n > 0 ? &w->writes[first + n - 1] : &w->own);
    w->own.next = NULL;
}

/* ---- leading ----------------------------------------------------------------------------------
 */

static void a_queue_that_nobody_leads_is_led_by_the_next_caller(void **state)
{
    world *w = *state;

    assert_true(w->queue.led); /* by `own`, in setup() */
    qp_queue_finish(&w->queue, &w->own);
    assert_false(w->queue.led);
    assert_true(qp_queue_enter(&w->queue, &w->writes[0]));
    assert_true(w->queue.led);
    assert_int_equal(queued(w), 0);
}

static void a_leader_that_ends_hands_the_lead_to_the_oldest_caller(void **state)
{
    world *w = *state;

    queue_writes(w, 0, 3);
    qp_queue_finish(&w->queue, &w->own);
    assert_true(w->queue.led);
    assert_int_equal(qp_latch_wait(&w->writes[0].answered, 1), LEAD);
    assert_int_equal(qp_latch_wait(&w->writes[1].answered, 1), 0);
    assert_false(w->writes[0].queued);
    assert_null(w->writes[0].next);
    assert_int_equal(queued(w), 2);
}

/* ---- taking -----------------------------------------------------------------------------------
 */

static void a_batch_holds_its_maximum_and_one_more_stays_behind(void **state)
{
    world *w = *state;

    queue_writes(w, 0, QUIPU_GROUP_MAX - 1);
    check_takes(w, false, 0, QUIPU_GROUP_MAX - 1); /* all of them: the batch is full */
    assert_int_equal(queued(w), 0);
    queue_writes(w, 0, CROWD);
    check_takes(w, false, 0, QUIPU_GROUP_MAX - 1);
    assert_int_equal(queued(w), CROWD - QUIPU_GROUP_MAX + 1);
    assert_ptr_equal(w->queue.head, &w->writes[QUIPU_GROUP_MAX - 1]);
}

static void a_full_batch_takes_nobody(void **state)
{
    world *w = *state;
    size_t count = QUIPU_GROUP_MAX;

    queue_writes(w, 0, 1);
    assert_ptr_equal(qp_queue_take(&w->queue, &w->own, false, &count), &w->own);
    assert_int_equal(count, QUIPU_GROUP_MAX);
    count--;
    assert_ptr_equal(qp_queue_take(&w->queue, &w->own, false, &count), &w->writes[0]);
    assert_int_equal(count, QUIPU_GROUP_MAX);
}

static void an_outside_write_is_never_taken_and_keeps_its_place(void **state)
{
    world *w = *state;

    w->writes[2].kind = QP_WRITE_OUTSIDE;
    queue_writes(w, 0, 5);
    check_takes(w, false, 0, 2);
    assert_ptr_equal(w->queue.head, &w->writes[2]);
    check_takes(w, false, 0, 0);
    check_takes(w, true, 0, 0);
    assert_int_equal(queued(w), 3);
}

static void a_write_of_several_sessions_stays_behind_where_sessions_are_locked(void **state)
{
    world *w = *state;

    w->writes[1].call = &w->store;
    queue_writes(w, 0, 3);
    check_takes(w, true, 0, 1);
    check_takes(w, true, 1, 0);
    check_takes(w, false, 1, 2); /* where nobody else writes it fits */
    assert_int_equal(queued(w), 0);
}

/* ---- going back -------------------------------------------------------------------------------
 */

static void requeued_members_come_first_and_in_their_order(void **state)
{
    world *w = *state;

    queue_writes(w, 3, 5);
    queue_writes(w, 0, 3);
    assert_ptr_equal(w->queue.tail, &w->writes[4]);
    assert_int_equal(queued(w), 5);
    assert_null(w->own.next);
    check_takes(w, true, 0, 5);
}

static void a_leader_without_members_requeues_nothing(void **state)
{
    world *w = *state;

    qp_queue_requeue(&w->queue, &w->own);
    assert_int_equal(queued(w), 0);
    queue_writes(w, 0, 1);
    qp_queue_requeue(&w->queue, &w->own);
    assert_int_equal(queued(w), 1);
}

/* ---- leaving ----------------------------------------------------------------------------------
 */

static void check_leaves(world *w, const qp_call *call, quipu_status status)
{
    quipu_error err = {0};
    qp_write write = {.kind = QP_WRITE_CHANGE, .call = call, .reterr = &err};
    const size_t before = queued(w);

    assert_false(qp_queue_enter(&w->queue, &write));
    T_STATUS(write.status, status);
    assert_int_equal(err.status, status);
    assert_int_equal(queued(w), before);
    write.reterr = NULL; /* nor does it need a place for the error */
    write.queued = false;
    write.next = NULL;
    assert_false(qp_queue_enter(&w->queue, &write));
    T_STATUS(write.status, status);
}

static void a_caller_past_its_deadline_leaves(void **state)
{
    world *w = *state;
    const qp_call over = {.deadline_ns = 1};

    check_leaves(w, &over, QUIPU_BUSY); /* head and tail at once */
    queue_writes(w, 0, 2);
    check_leaves(w, &over, QUIPU_BUSY);
    assert_ptr_equal(w->queue.tail, &w->writes[1]);
    check_takes(w, true, 0, 2);
}

static void a_cancelled_caller_leaves(void **state)
{
    world *w = *state;
    const qp_call cancelled = {.deadline_ns = QP_NEVER, .cancel = quipu_cancel_new()};

    assert_non_null(cancelled.cancel);
    quipu_cancel_set(cancelled.cancel);
    check_leaves(w, &cancelled, QUIPU_CANCELLED);
    queue_writes(w, 0, 2);
    check_leaves(w, &cancelled, QUIPU_CANCELLED);
    check_takes(w, true, 0, 2);
    quipu_free(cancelled.cancel);
}

/* ---- waiting for more -------------------------------------------------------------------------
 */

static void a_leader_waits_only_for_members_that_it_expects_and_has_time_for(void **state)
{
    world *w = *state;
    int64_t wait_ns = INT64_MAX / 2; /* it would wait for ever */

    qp_queue_wait_for_more(&w->queue, 1, &wait_ns); /* none is expected */
    w->queue.expected_size = 3;
    qp_queue_wait_for_more(&w->queue, 3, &wait_ns); /* all are there */
    assert_true(wait_ns == INT64_MAX / 2);
    wait_ns = 0;
    qp_queue_wait_for_more(&w->queue, 1, &wait_ns); /* no time is left */
    assert_int_equal(wait_ns, 0);
    wait_ns = INT64_MAX / 2;
    queue_writes(w, 0, 1);
    qp_queue_wait_for_more(&w->queue, 1, &wait_ns); /* one waits already */
    assert_false(w->queue.waiting_for_more);
    check_takes(w, true, 0, 1);
    wait_ns = 1000;
    qp_queue_wait_for_more(&w->queue, 1, &wait_ns); /* nobody comes */
    assert_true(wait_ns <= 0);
    assert_false(w->queue.waiting_for_more);
}

/* ---- waking -----------------------------------------------------------------------------------
 */

/* How many members the leader wakes by itself; each of them wakes `wakes` behind it. */
static size_t direct_wakes(world *w, size_t members)
{
    size_t reported = 0;
    size_t reached = 0;

    queue_writes(w, 0, members);
    check_takes(w, true, 0, members);
    w->own.next = members > 0 ? &w->writes[0] : NULL;
    for (size_t i = 0; i < members; i++) {
        w->writes[i].next = i + 1 < members ? &w->writes[i + 1] : NULL;
    }
    qp_queue_finish(&w->queue, &w->own);
    for (size_t i = 0; i < members; i += 1 + w->writes[i].wakes) {
        assert_int_equal(qp_latch_wait(&w->writes[i].answered, 1), ANSWERED);
        reported++;
        reached += 1 + w->writes[i].wakes;
        for (size_t j = i + 1; j <= i + w->writes[i].wakes; j++) {
            assert_int_equal(qp_latch_wait(&w->writes[j].answered, 1), 0); /* not yet */
        }
    }
    assert_int_equal(reached, members);
    w->own.next = NULL;
    assert_true(qp_queue_enter(&w->queue, &w->own)); /* lead again */
    for (size_t i = 0; i < members; i++) {
        w->writes[i] = (qp_write){.kind = QP_WRITE_CHANGE, .call = &w->session};
    }
    return reported;
}

static void members_are_woken_as_a_tree(void **state)
{
    world *w = *state;

    assert_int_equal(direct_wakes(w, 0), 0);
    assert_int_equal(direct_wakes(w, 1), 1);
    assert_int_equal(direct_wakes(w, 2), 2);
    assert_int_equal(direct_wakes(w, 3), 2);
    assert_int_equal(direct_wakes(w, QUIPU_GROUP_MAX - 1), 8); /* 128 + 64 + ... + 1 */
}

static void the_expected_size_grows_with_a_batch_at_once_and_shrinks_slowly(void **state)
{
    static const size_t members[] = {7, 1, 0, 0, 0, 0, QUIPU_GROUP_MAX - 1};
    static const size_t expected[] = {8, 5, 3, 2, 1, 1, QUIPU_GROUP_MAX};
    world *w = *state;

    assert_int_equal(w->queue.expected_size, 0);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        (void)direct_wakes(w, members[i]);
        assert_int_equal(w->queue.expected_size, expected[i]);
    }
}

#define QUEUE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(a_queue_that_nobody_leads_is_led_by_the_next_caller),
        QUEUE_TEST(a_leader_that_ends_hands_the_lead_to_the_oldest_caller),
        QUEUE_TEST(a_batch_holds_its_maximum_and_one_more_stays_behind),
        QUEUE_TEST(a_full_batch_takes_nobody),
        QUEUE_TEST(an_outside_write_is_never_taken_and_keeps_its_place),
        QUEUE_TEST(a_write_of_several_sessions_stays_behind_where_sessions_are_locked),
        QUEUE_TEST(requeued_members_come_first_and_in_their_order),
        QUEUE_TEST(a_leader_without_members_requeues_nothing),
        QUEUE_TEST(a_caller_past_its_deadline_leaves),
        QUEUE_TEST(a_cancelled_caller_leaves),
        QUEUE_TEST(a_leader_waits_only_for_members_that_it_expects_and_has_time_for),
        QUEUE_TEST(members_are_woken_as_a_tree),
        QUEUE_TEST(the_expected_size_grows_with_a_batch_at_once_and_shrinks_slowly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
