// ranks: 1 2 4
// transports: one
/* Attributes of communicators: copied by dup as their functions say, deleted in reverse order,
 * kept when a function fails. */
#include "check.h"

enum { NONE = -1 };

/* The calls of the functions, in order: copies as the value, deletions as -1000 - value. */
static int seen[64], n_seen = 0;
static int fail_copy = NONE, fail_delete = NONE, own_class;
static MPI_Comm deleted_from = MPI_COMM_NULL;
static char extra;

static void see(int what)
{
    if (n_seen < 64) seen[n_seen++] = what;
}

static void *as_value(int n)
{
    return (void *) (intptr_t) n;
}

static int copy(MPI_Comm comm, int keyval, void *extra_state, void *in, void *out, int *flag)
{
    int value = (int) (intptr_t) in, members = -1;
    CHECK(extra_state == &extra);
    CHECK(comm != MPI_COMM_NULL && keyval != MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_size(comm, &members));
    see(value);
    if (value == fail_copy) return own_class;
    *flag = value % 10 != 9; /* values that end in 9 are not copied */
    *(void **) out = as_value(value + 100);
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra_state)
{
    int number = (int) (intptr_t) value;
    CHECK(extra_state == &extra);
    see(-1000 - number);
    deleted_from = comm;
    (void) keyval;
    return number == fail_delete ? own_class : MPI_SUCCESS;
}

static void expect_seen(int count, const int *want, int line)
{
    check_report(n_seen == count, __FILE__, line, "%d calls, not %d", n_seen, count);
    for (int i = 0; i < count && i < n_seen; i++)
        check_report(seen[i] == want[i], __FILE__, line, "call %d was %d, not %d", i, seen[i], want[i]);
    n_seen = 0;
}

#define SEEN(...) expect_seen(sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__}, __LINE__)
#define SEEN_NOTHING() expect_seen(0, NULL, __LINE__)

static void has(MPI_Comm comm, int keyval, int want, int line)
{
    void *value = as_value(77);
    int flag = -1;
    check_class(MPI_Comm_get_attr(comm, keyval, &value, &flag), MPI_SUCCESS, __FILE__, line, "get_attr", "MPI_SUCCESS");
    check_report(flag == (want != NONE), __FILE__, line, "flag is %d", flag);
    check_report((int) (intptr_t) value == (want == NONE ? 77 : want), __FILE__, line, "value is %d, not %d",
                 (int) (intptr_t) value, want);
}

#define HAS(comm, keyval, want) has((comm), (keyval), (want), __LINE__)

static void set_and_delete(MPI_Comm comm, int a, int b)
{
    HAS(comm, a, NONE);
    CHECK_OK(MPI_Comm_set_attr(comm, a, as_value(1)));
    CHECK_OK(MPI_Comm_set_attr(comm, b, as_value(2)));
    HAS(comm, a, 1);
    HAS(comm, b, 2);
    SEEN_NOTHING();
    CHECK_OK(MPI_Comm_set_attr(comm, a, as_value(3))); /* the old value is deleted first */
    CHECK(deleted_from == comm);
    SEEN(-1001);
    HAS(comm, a, 3);
    fail_delete = 3;
    CHECK_CLASS(MPI_Comm_set_attr(comm, a, as_value(4)), own_class);
    SEEN(-1003);
    HAS(comm, a, 3);
    CHECK_CLASS(MPI_Comm_delete_attr(comm, a), own_class);
    SEEN(-1003);
    HAS(comm, a, 3);
    fail_delete = NONE;
    CHECK_OK(MPI_Comm_delete_attr(comm, a));
    SEEN(-1003);
    HAS(comm, a, NONE);
    CHECK_CLASS(MPI_Comm_delete_attr(comm, a), MPI_ERR_KEYVAL);
    CHECK_OK(MPI_Comm_delete_attr(comm, b));
    SEEN(-1002);
}

static void duplicates(MPI_Comm comm, int a, int b)
{
    int keep, share;
    MPI_Comm second, third;
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keep, NULL));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &share, NULL));
    CHECK_OK(MPI_Comm_set_attr(comm, b, as_value(5)));
    CHECK_OK(MPI_Comm_set_attr(comm, keep, as_value(6)));
    CHECK_OK(MPI_Comm_set_attr(comm, share, as_value(7)));
    CHECK_OK(MPI_Comm_set_attr(comm, a, as_value(8)));
    CHECK_OK(MPI_Comm_dup(comm, &second));
    SEEN(5, 8);
    HAS(second, b, 105);
    HAS(second, keep, NONE);
    HAS(second, share, 7);
    HAS(second, a, 108);
    HAS(comm, b, 5);
    CHECK_OK(MPI_Comm_set_attr(second, a, as_value(19))); /* this one is not copied */
    SEEN(-1108);
    CHECK_OK(MPI_Comm_dup_with_info(second, MPI_INFO_NULL, &third));
    SEEN(105, 19);
    HAS(third, b, 205);
    HAS(third, a, NONE);
    CHECK_OK(MPI_Comm_free(&third));
    SEEN(-1205);
    CHECK_OK(MPI_Comm_split(second, 0, rank, &third));
    SEEN_NOTHING();
    HAS(third, b, NONE);
    CHECK_OK(MPI_Comm_free(&third));
    SEEN_NOTHING();
    CHECK_OK(MPI_Comm_free(&second));
    SEEN(-1019, -1105);
    CHECK_OK(MPI_Comm_delete_attr(comm, keep));
    CHECK_OK(MPI_Comm_delete_attr(comm, share));
    CHECK_OK(MPI_Comm_free_keyval(&keep));
    CHECK_OK(MPI_Comm_free_keyval(&share));
    CHECK(keep == MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_delete_attr(comm, a));
    CHECK_OK(MPI_Comm_delete_attr(comm, b));
    SEEN(-1008, -1005);
}

/* A copy function that fails makes the dup fail on its rank; a delete function that fails keeps
 * the communicator. */
static void failures(int a, int b)
{
    MPI_Comm comm, copy_comm = MPI_COMM_NULL, kept;
    int size_of_it = -1;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_attr(comm, a, as_value(10)));
    CHECK_OK(MPI_Comm_set_attr(comm, b, as_value(20)));
    if (rank == size - 1) {
        fail_copy = 20;
        CHECK_CLASS(MPI_Comm_dup(comm, &copy_comm), own_class);
        CHECK(copy_comm == MPI_COMM_NULL);
        SEEN(10, 20, -1110); /* earlier copies are deleted */
        fail_copy = NONE;
    } else {
        CHECK_OK(MPI_Comm_dup(comm, &copy_comm));
        SEEN(10, 20);
        CHECK_OK(MPI_Comm_free(&copy_comm));
        SEEN(-1120, -1110);
    }
    CHECK_OK(MPI_Barrier(comm));
    HAS(comm, a, 10);
    HAS(comm, b, 20);

    kept = comm;
    fail_delete = 10;
    CHECK_CLASS(MPI_Comm_free(&comm), own_class);
    CHECK(comm == kept);
    SEEN(-1020, -1010);
    fail_delete = NONE;
    HAS(comm, a, 10);
    HAS(comm, b, NONE);
    CHECK_OK(MPI_Comm_size(comm, &size_of_it));
    CHECK_EQ(size_of_it, size);
    CHECK_OK(MPI_Barrier(comm));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK(comm == MPI_COMM_NULL);
    SEEN(-1010);
}

static void freed_keys(void)
{
    int keyval, number;
    MPI_Comm comm, second;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_keyval(copy, delete, &keyval, &extra));
    CHECK_OK(MPI_Comm_set_attr(comm, keyval, as_value(40)));
    number = keyval;
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    CHECK_EQ(keyval, MPI_KEYVAL_INVALID);
    HAS(comm, number, 40);
    /* Another part of the program has a copy of the number, and frees it too. */
    keyval = number;
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    CHECK_EQ(keyval, MPI_KEYVAL_INVALID);
    keyval = number;
    CHECK_CLASS(MPI_Type_free_keyval(&keyval), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_set_attr(comm, number, as_value(41)), MPI_ERR_KEYVAL);
    HAS(comm, number, 40);
    CHECK_OK(MPI_Comm_dup(comm, &second));
    SEEN(40);
    HAS(second, number, 140);
    CHECK_OK(MPI_Comm_delete_attr(comm, number));
    SEEN(-1040);
    void *value;
    int flag;
    CHECK_CLASS(MPI_Comm_get_attr(comm, number, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_OK(MPI_Comm_free(&second));
    SEEN(-1140);
    CHECK_CLASS(MPI_Comm_free_keyval(&keyval), MPI_ERR_KEYVAL); /* no attribute has it any more */
    CHECK_OK(MPI_Comm_free(&comm));
    SEEN_NOTHING();
}

static void wrong(MPI_Comm comm, int a)
{
    int keyval = MPI_KEYVAL_INVALID, types, flag;
    void *value;
    CHECK_CLASS(MPI_Comm_create_keyval(copy, delete, NULL, &extra), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_free_keyval(&keyval), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_set_attr(comm, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_get_attr(comm, 123456, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_delete_attr(comm, -1), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_set_attr(MPI_COMM_NULL, a, NULL), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_get_attr(MPI_COMM_NULL, a, &value, &flag), MPI_ERR_COMM);
    CHECK_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &types, NULL));
    CHECK_CLASS(MPI_Comm_set_attr(comm, types, NULL), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_free_keyval(&types), MPI_ERR_KEYVAL);
    CHECK_OK(MPI_Type_free_keyval(&types));
    CHECK_CLASS(MPI_Comm_get_attr(comm, a, &value, NULL), MPI_ERR_ARG);
    SEEN_NOTHING();
}

int main(int argc, char **argv)
{
    int a, b;
    MPI_Comm comm;
    check_watch();
    CHECK_OK(MPI_Comm_create_keyval(copy, delete, &a, &extra)); /* before MPI_Init */
    MPI_Init(&argc, &argv);
    check_ranks();
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_create_keyval(copy, delete, &b, &extra));
    CHECK_OK(MPI_Add_error_class(&own_class));
    CHECK(a != b);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    set_and_delete(comm, a, b);
    set_and_delete(MPI_COMM_WORLD, a, b);
    duplicates(comm, a, b);
    duplicates(MPI_COMM_WORLD, a, b);
    failures(a, b);
    freed_keys();
    wrong(comm, a);
    /* The older names of the same calls. */
    void *value = NULL;
    int keyval, flag = -1;
    CHECK_OK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &keyval, NULL));
    CHECK_OK(MPI_Attr_put(comm, keyval, as_value(3)));
    CHECK_OK(MPI_Attr_get(comm, keyval, &value, &flag));
    CHECK(flag == 1 && value == as_value(3));
    CHECK_OK(MPI_Attr_delete(comm, keyval));
    CHECK_OK(MPI_Attr_get(comm, keyval, &value, &flag));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Keyval_free(&keyval));
    CHECK_EQ(keyval, MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_free(&comm));
    SEEN_NOTHING();
    CHECK_OK(MPI_Comm_free_keyval(&b));
    int total = check_total();
    MPI_Finalize();
    CHECK_OK(MPI_Comm_free_keyval(&a)); /* after MPI_Finalize */
    total += check_failures;
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    return total != 0;
}
