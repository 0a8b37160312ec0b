// ranks: 1 2 4 7
// transports: one
/* Process sets and their information; groups and communicators of them, before MPI_Init. */
#include "sessions.h"

static int value_is(MPI_Info info, const char *key, const char *wanted)
{
    char value[MPI_MAX_INFO_VAL];
    int length = sizeof value, flag = 0;
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    return flag && !strcmp(value, wanted);
}

static void sets(MPI_Session session)
{
    int count = 0, found = 0;
    CHECK_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count >= 2);
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN] = "", cut[5] = "####";
        int length = 0, again;
        CHECK_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL));
        CHECK(length > 1 && length <= MPI_MAX_PSET_NAME_LEN);
        again = length;
        CHECK_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &again, name));
        CHECK_EQ(again, length);
        CHECK_EQ(strlen(name) + 1, length);
        again = 4;
        CHECK_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &again, cut));
        CHECK_EQ(again, length);
        CHECK(!strncmp(cut, name, 3) && cut[3] == 0);
        found += !strcmp(name, "mpi://WORLD") || !strcmp(name, "mpi://SELF");
        MPI_Info info;
        MPI_Group group = group_of(session, name);
        char members[16];
        int size_of_group = -1;
        CHECK_OK(MPI_Group_size(group, &size_of_group));
        snprintf(members, sizeof members, "%d", size_of_group);
        CHECK_OK(MPI_Session_get_pset_info(session, name, &info));
        CHECK(value_is(info, "mpi_size", members));
        MPI_Info_free(&info);
        MPI_Group_free(&group);
    }
    CHECK_EQ(found, 2);
}

static void groups(MPI_Session session)
{
    MPI_Group all = group_of(session, "mpi://WORLD"), own = group_of(session, "mpi://SELF"), both, rest;
    MPI_Group spelled = group_of(session, "MPI://world");
    int result = -1, me = -1, zero = 0, where = -1, n = 0;
    MPI_Group_rank(all, &me);
    MPI_Group_size(all, &n);
    MPI_Group_rank(own, &result);
    CHECK_EQ(result, 0);
    CHECK_OK(MPI_Group_translate_ranks(own, 1, &zero, all, &where));
    CHECK_EQ(where, me);
    CHECK_OK(MPI_Group_compare(all, spelled, &result));
    CHECK_EQ(result, MPI_IDENT);
    CHECK_OK(MPI_Group_union(own, all, &both));
    CHECK_OK(MPI_Group_compare(all, both, &result));
    CHECK_EQ(result, me == 0 ? MPI_IDENT : MPI_SIMILAR);
    CHECK_OK(MPI_Group_difference(all, own, &rest));
    CHECK_EQ(rest == MPI_GROUP_EMPTY, n == 1);
    /* A communicator of all in this group's order, then each rank's own, then halves and an
     * intercommunicator. */
    MPI_Comm comm, alone, half;
    CHECK_OK(MPI_Comm_create_from_group(own, "alone", MPI_INFO_NULL, RETURN, &alone));
    exercise(alone);
    CHECK_OK(MPI_Comm_create_from_group(all, "all", MPI_INFO_NULL, RETURN, &comm));
    exercise(comm);
    CHECK_OK(MPI_Comm_split(comm, me % 2, -me, &half));
    exercise(half);
    MPI_Group mine, theirs;
    MPI_Group turned;
    CHECK_OK(MPI_Comm_group(half, &turned));
    CHECK_OK(MPI_Group_intersection(all, turned, &mine));
    MPI_Group_free(&turned);
    CHECK_OK(MPI_Group_difference(all, mine, &theirs));
    if (n > 1) {
        MPI_Comm inter, merged, duplicate;
        CHECK_OK(MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "inter", MPI_INFO_NULL, RETURN, &inter));
        CHECK_OK(MPI_Comm_dup(inter, &duplicate));
        CHECK_OK(MPI_Intercomm_merge(duplicate, me % 2, &merged));
        exercise(merged);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&duplicate);
        MPI_Comm_free(&merged);
    }
    void *tag_ub = NULL;
    int flag = 0;
    CHECK_OK(MPI_Comm_get_attr(comm, MPI_TAG_UB, &tag_ub, &flag));
    CHECK(flag && *(int *) tag_ub >= 32767);
    MPI_Comm_free(&half);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&alone);
    MPI_Group *made[] = {&all, &own, &both, &spelled, &mine};
    for (int i = 0; i < 5; i++) MPI_Group_free(made[i]);
    if (theirs != MPI_GROUP_EMPTY) MPI_Group_free(&theirs);
    if (rest != MPI_GROUP_EMPTY) MPI_Group_free(&rest);
}

static void wrong(MPI_Session session)
{
    int length = 0, count = -1;
    char name[MPI_MAX_PSET_NAME_LEN];
    MPI_Info info = MPI_INFO_NULL;
    MPI_Group group = MPI_GROUP_EMPTY;
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, name), MPI_ERR_ARG);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &length, name), MPI_ERR_ARG);
    length = -1;
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, NULL, name), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_pset_info(session, "mpi://NOWHERE", &info), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_pset_info(session, NULL, &info), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_pset_info(session, "mpi://SELF", NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &group), MPI_ERR_ARG);
    CHECK(group == MPI_GROUP_NULL);
    CHECK_CLASS(MPI_Group_from_session_pset(session, "mpi://SELF", NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_info(session, NULL), MPI_ERR_ARG);
}

static void infos(void)
{
    static const char *const levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED",
                                         "MPI_THREAD_MULTIPLE"};
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info, used;
    MPI_Info_create(&info);
    for (int i = 0; i < 4; i++) {
        MPI_Info_set(info, "thread_level", levels[i]);
        MPI_Info_set(info, "mpi_memory_alloc_kinds", "mpi:alloc_mem,unknown,system");
        CHECK_OK(MPI_Session_init(info, RETURN, &session));
        CHECK_OK(MPI_Session_get_info(session, &used));
        CHECK(value_is(used, "thread_level", levels[i]));
        CHECK(value_is(used, "mpi_memory_alloc_kinds", "mpi,system,mpi:alloc_mem"));
        MPI_Info_free(&used);
        CHECK_OK(MPI_Session_finalize(&session));
    }
    MPI_Info_set(info, "thread_level", "plenty");
    CHECK_CLASS(MPI_Session_init(info, RETURN, &session), MPI_ERR_INFO_VALUE);
    CHECK(session == MPI_SESSION_NULL);
    MPI_Info_free(&info);
    session = open_session();
    CHECK_OK(MPI_Session_get_info(session, &used));
    CHECK(value_is(used, "thread_level", "MPI_THREAD_MULTIPLE"));
    MPI_Info_free(&used);
    CHECK(MPI_Session_fromint(MPI_Session_toint(session)) == session);
    CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    close_session(&session);
}

int main(void)
{
    check_watch();
    MPI_Session session = open_session();
    sets(session);
    groups(session);
    wrong(session);
    close_session(&session);
    infos();
    return sessions_end();
}
