// ranks: 1
// transports: one
/* Categories: each item is in one, their counts and lists agree, wrong arguments; the list of
 * all variables and events. */
#include "mpit.h"

typedef int (*list_of)(int, int, int[]);

static void complete(list_of list, int count, int categories)
{
    int *seen = calloc((size_t) count, sizeof *seen), *indices = malloc((size_t) count * sizeof *indices);
    for (int category = 0; category < categories; category++) {
        for (int i = 0; i < count; i++) indices[i] = -1;
        CHECK_OK(list(category, count, indices));
        int in = 0;
        while (in < count && indices[in] >= 0) seen[indices[in++]]++;
        /* With less room fewer entries are written. */
        if (in > 1) {
            int few[2] = {-1, -7};
            CHECK_OK(list(category, 1, few));
            CHECK(few[0] == indices[0] && few[1] == -7);
            CHECK_EQ(list(category, 2, NULL), MPI_T_ERR_INVALID);
        }
        CHECK_OK(list(category, 0, NULL));
        CHECK_EQ(list(category, -1, indices), MPI_T_ERR_INVALID);
    }
    for (int i = 0; i < count; i++) CHECK_EQ(seen[i], 1);
    CHECK_EQ(list(-1, 0, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(list(categories, 0, NULL), MPI_T_ERR_INVALID_INDEX);
    free(seen);
    free(indices);
}

int main(int argc, char **argv)
{
    int provided, categories = 0, cvars = 0, pvars = 0, events = 0, all[3] = {0}, inside = 0, index = -1;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_category_get_num(&categories));
    CHECK_OK(MPI_T_cvar_get_num(&cvars));
    CHECK_OK(MPI_T_pvar_get_num(&pvars));
    CHECK_OK(MPI_T_event_get_num(&events));
    CHECK(categories > 3);
    for (int i = 0; i < categories; i++) {
        char name[64], text[256];
        int name_len = sizeof name, text_len = sizeof text, n[4] = {-1, -1, -1, -1};
        CHECK_OK(MPI_T_category_get_info(i, name, &name_len, text, &text_len, &n[0], &n[1], &n[2]));
        CHECK_OK(MPI_T_category_get_num_events(i, &n[3]));
        CHECK(strlen(name) + 1 == (size_t) name_len && strlen(text) + 1 == (size_t) text_len && text_len > 3);
        CHECK_OK(MPI_T_category_get_index(name, &index));
        CHECK_EQ(index, i);
        CHECK_OK(MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
        all[0] += n[0];
        all[1] += n[1];
        all[2] += n[3];
        inside += n[2];
        int children[16];
        CHECK_OK(MPI_T_category_get_categories(i, 16, children));
        for (int child = 0; child < n[2]; child++) CHECK(children[child] > i && children[child] < categories);
    }
    CHECK_EQ(all[0], cvars);
    CHECK_EQ(all[1], pvars);
    CHECK_EQ(all[2], events);
    CHECK(inside >= 2);
    complete(MPI_T_category_get_cvars, cvars, categories);
    complete(MPI_T_category_get_pvars, pvars, categories);
    complete(MPI_T_category_get_events, events, categories);

    int shm = -1, pvar = pvar_index("shm_bytes_sent", NULL), found = 0, list[256], n = 0;
    CHECK_OK(MPI_T_category_get_index("shm", &shm));
    CHECK_OK(MPI_T_category_get_info(shm, NULL, NULL, NULL, NULL, NULL, &n, NULL));
    CHECK_OK(MPI_T_category_get_pvars(shm, 256, list));
    for (int i = 0; i < n; i++) found += list[i] == pvar;
    CHECK_EQ(found, 1);

    int before = -1, after = -2;
    CHECK_OK(MPI_T_category_changed(&before));
    CHECK_OK(MPI_T_category_changed(&after));
    CHECK_EQ(before, after);

    CHECK_EQ(MPI_T_category_get_num(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_changed(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_get_index("none", &index), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_category_get_index(NULL, &index), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_get_index("shm", NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_get_info(categories, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_category_get_num_events(-1, &n), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_category_get_num_events(0, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_get_categories(categories, 0, NULL), MPI_T_ERR_INVALID_INDEX);
    int result = check_end();
    MPI_T_finalize();
    return result;
}
