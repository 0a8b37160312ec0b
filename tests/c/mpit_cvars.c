// ranks: 1 2
// transports: one
/* Control variables: their description, reading, permission to write, wrong arguments;
 * enumerations and strings. */
#include "mpit.h"

/* Strings in results, with a variable of known name. */
static void strings(int index, const char *name)
{
    int whole = (int) strlen(name) + 1, length;
    char text[64];
#define INFO(text, length) MPI_T_cvar_get_info(index, text, length, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
    length = sizeof text;
    CHECK_OK(INFO(text, &length));
    CHECK_EQ(length, whole);
    CHECK(strcmp(text, name) == 0);
    memset(text, '#', sizeof text);
    length = whole;
    CHECK_OK(INFO(text, &length));
    CHECK(strcmp(text, name) == 0 && text[whole] == '#');
    for (int room = 1; room < whole; room++) {
        memset(text, '#', sizeof text);
        length = room;
        CHECK_OK(INFO(text, &length));
        CHECK_EQ(length, whole);
        CHECK(strncmp(text, name, (size_t) room - 1) == 0 && text[room - 1] == 0 && text[room] == '#');
    }
    memset(text, '#', sizeof text);
    length = 0;
    CHECK_OK(INFO(text, &length));
    CHECK_EQ(length, whole);
    CHECK(text[0] == '#');
    length = 17;
    CHECK_OK(INFO(NULL, &length));
    CHECK_EQ(length, whole);
    CHECK_OK(INFO(text, NULL));
    CHECK(text[0] == '#');
}

static void all(void)
{
    int count = 0;
    CHECK_OK(MPI_T_cvar_get_num(&count));
    CHECK(count > 20);
    for (int i = 0; i < count; i++) {
        char name[128], text[1024], big[4096];
        int name_len = sizeof name, text_len = sizeof text, level = -1, bind = -1, scope = -1, index = -1, elements = -1;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum items = MPI_T_ENUM_NULL;
        CHECK_OK(MPI_T_cvar_get_info(i, name, &name_len, &level, &type, &items, text, &text_len, &bind, &scope));
        check_where("%s", name);
        CHECK_OK(MPI_T_cvar_get_index(name, &index));
        CHECK_EQ(index, i);
        CHECK_EQ(bind, MPI_T_BIND_NO_OBJECT);
        CHECK(scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_LOCAL || scope == MPI_T_SCOPE_ALL_EQ);
        CHECK(level == MPI_T_VERBOSITY_USER_BASIC || level == MPI_T_VERBOSITY_TUNER_BASIC ||
              level == MPI_T_VERBOSITY_MPIDEV_BASIC);
        CHECK(text_len > 20 && strlen(text) + 1 == (size_t) text_len);
        MPI_T_cvar_handle handle;
        CHECK_OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements));
        CHECK_OK(MPI_T_cvar_read(handle, big));
        if (type == MPI_CHAR) {
            CHECK_EQ(strlen(big) + 1, elements);
        } else {
            CHECK(type == MPI_INT || type == MPI_UNSIGNED_LONG_LONG);
            CHECK_EQ(elements, 1);
        }
        CHECK_EQ(MPI_T_cvar_write(handle, big),
                 scope == MPI_T_SCOPE_CONSTANT ? MPI_T_ERR_CVAR_SET_NEVER : MPI_SUCCESS);
        if (items != MPI_T_ENUM_NULL) {
            int n = 0, value = -1, current, seen = 0;
            memcpy(&current, big, sizeof current);
            CHECK_EQ(type, MPI_INT);
            CHECK_OK(MPI_T_enum_get_info(items, &n, NULL, NULL));
            CHECK(n >= 2);
            for (int item = 0; item < n; item++) {
                char word[64] = "";
                int length = sizeof word;
                CHECK_OK(MPI_T_enum_get_item(items, item, &value, word, &length));
                CHECK(strlen(word) > 0 && strlen(word) + 1 == (size_t) length);
                seen += value == current;
            }
            CHECK_EQ(seen, 1);
            CHECK_EQ(MPI_T_enum_get_item(items, n, &value, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
            CHECK_EQ(MPI_T_enum_get_item(items, -1, &value, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
        }
        CHECK_OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
        check_where("%s", "");
    }
    CHECK_EQ(MPI_T_cvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
}

static void mistakes(void)
{
    int n = 0, value = 0;
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL, freed;
    CHECK_EQ(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_get_index("no_such_variable", &n), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_cvar_get_index(NULL, &n), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_get_index("rpi", NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_handle_alloc(-1, NULL, &handle, &n), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_cvar_handle_alloc(1 << 20, NULL, &handle, &n), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_cvar_handle_alloc(0, NULL, NULL, &n), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_handle_alloc(0, NULL, &handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_read(handle, &n), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_write(handle, &n), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_handle_free(&handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_handle_free(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_enum_get_item((MPI_T_enum) 7, 0, &n, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    handle = freed = cvar("shm_eager_limit_bytes");
    CHECK_EQ(MPI_T_cvar_read(handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_write(handle, NULL), MPI_T_ERR_INVALID);
    int before = -1;
    CHECK_OK(MPI_T_cvar_read(handle, &before));
    for (int i = 0; i < 2; i++) {
        value = i ? 524289 : -1;
        CHECK_EQ(MPI_T_cvar_write(handle, &value), MPI_T_ERR_INVALID);
    }
    CHECK_OK(MPI_T_cvar_read(handle, &value));
    CHECK_EQ(value, before);
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    CHECK_EQ(MPI_T_cvar_read(freed, &value), MPI_T_ERR_INVALID_HANDLE);
    handle = cvar("single_copy");
    value = 3;
    CHECK_EQ(MPI_T_cvar_write(handle, &value), MPI_T_ERR_INVALID);
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    int index = -1;
    CHECK_OK(MPI_T_cvar_get_index("shm_single_copy", &index));
    CHECK_OK(MPI_T_cvar_get_index("single_copy", &n));
    CHECK_EQ(index, n);
}

int main(int argc, char **argv)
{
    check_watch();
    int provided, index = -1, value = -1;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    set_cvar("wait_yields", 5);
    set_cvar("wait_yields", 7);
    MPI_T_cvar_handle handle = cvar("shm_ring_slots");
    value = 256;
    CHECK_EQ(MPI_T_cvar_write(handle, &value), MPI_T_ERR_CVAR_SET_NEVER);
    CHECK_OK(MPI_T_cvar_handle_free(&handle));

    MPI_Init(&argc, &argv);
    check_ranks();
    handle = cvar("wait_yields");
    CHECK_OK(MPI_T_cvar_read(handle, &value));
    CHECK_EQ(value, 7);
    CHECK_OK(MPI_T_cvar_get_index("btl_tcp_if_include", &index));
    strings(index, "btl_tcp_if_include");
    all();
    mistakes();
    int total = check_total();
    MPI_Finalize();
    CHECK_OK(MPI_T_cvar_read(handle, &value));
    CHECK_EQ(value, 7);
    CHECK_EQ(MPI_T_cvar_write(handle, &value), MPI_T_ERR_CVAR_SET_NOT_NOW);
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    CHECK_OK(MPI_T_finalize());
    if (total || check_failures) return 1;
    if (rank == 0) printf("ok\n");
    return 0;
}
