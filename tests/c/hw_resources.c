// ranks: 1 2
// transports: one
/* The results of MPI_Get_hw_resource_info about the processors that a process may use. */
#define _GNU_SOURCE
#include "check.h"

#include <sched.h>

static int singles(int *keys)
{
    MPI_Info info;
    int single = 0, machine = 0;
    *keys = -1;
    CHECK_OK(MPI_Get_hw_resource_info(&info));
    CHECK_OK(MPI_Info_get_nkeys(info, keys));
    for (int i = 0; i < *keys; i++) {
        char key[MPI_MAX_INFO_KEY] = "", value[16] = "";
        int flag = 0, length = sizeof value;
        CHECK_OK(MPI_Info_get_nthkey(info, i, key));
        CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
        check_where("%s is %s", key, value);
        CHECK(flag == 1 && strncmp(key, "linux://", 8) == 0);
        CHECK(!strcmp(value, "true") || !strcmp(value, "false"));
        single += !strcmp(value, "true");
        machine += !strcmp(key, "linux://Machine") && !strcmp(value, "true");
    }
    check_where("%s", "");
    CHECK_EQ(machine, 1);
    CHECK_OK(MPI_Info_free(&info));
    return single;
}

int main(int argc, char **argv)
{
    cpu_set_t allowed, one;
    int keys, before, after;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_Get_hw_resource_info(NULL), MPI_ERR_ARG);
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    before = singles(&keys);
    CHECK(keys >= 2);
    if (CPU_COUNT(&allowed) > 1) CHECK(before < keys); /* not one hardware thread alone */

    /* On one processor, there is one of everything. */
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    after = singles(&keys);
    CHECK_EQ(after, keys);
    CHECK(sched_setaffinity(0, sizeof allowed, &allowed) == 0);
    return check_end();
}
