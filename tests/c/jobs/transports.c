/* Prints the values of the parameter rpi in the library, one a line, and sends itself a message. */

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int provided, place, level, type, bind, scope, items, count, in = 7, out = 0;
    char name[64], help[4096], word[64];
    int name_len = sizeof name, help_len = sizeof help;
    MPI_T_enum words;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_index("rpi", &place);
    MPI_T_cvar_get_info(place, name, &name_len, &level, &type, &words, help, &help_len, &bind, &scope);
    name_len = sizeof name;
    MPI_T_enum_get_info(words, &count, name, &name_len);
    for (int i = 0; i < count; i++) {
        int word_len = sizeof word;
        MPI_T_enum_get_item(words, i, &items, word, &word_len);
        printf("%s\n", word);
    }
    MPI_T_finalize();
    MPI_Sendrecv(&in, 1, MPI_INT, 0, 1, &out, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return out != in;
}
