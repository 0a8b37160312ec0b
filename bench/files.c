/* The bandwidth of interleaved blocks of all ranks in a file: each rank has every n-th block.
 *
 *     files [-b MIB] [FILE]
 *
 *     naive        independent accesses, a system call for each block (romio_ds_* disable)
 *     sieved       the same, in large pieces of the file with holes (romio_ds_* enable)
 *     collective   one access of all ranks, in two phases (romio_cb_* enable)
 *
 * MiB a second of all ranks together, the best of three, for blocks of several lengths. FILE
 * (./files.tmp) is written and removed; read data are checked. The file stays in the page cache
 * as far as there is room: MPI_File_sync is not called. -b gives the MiB of each rank, else 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static MPI_Info hints(const char *sieving, const char *phases)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_ds_read", sieving);
    MPI_Info_set(info, "romio_ds_write", sieving);
    MPI_Info_set(info, "romio_cb_read", phases);
    MPI_Info_set(info, "romio_cb_write", phases);
    return info;
}

static double transfer(const char *name, MPI_Info info, int is_collective, int writes, char *data, int bytes, int block)
{
    MPI_File file;
    MPI_Datatype filetype, piece;
    MPI_Type_contiguous(block, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint) block * size, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file);
    MPI_File_set_view(file, (MPI_Offset) block * rank, MPI_BYTE, filetype, "native", info);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), mine, all;
    if (is_collective) {
        if (writes) MPI_File_write_at_all(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        else MPI_File_read_at_all(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    } else {
        if (writes) MPI_File_write_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        else MPI_File_read_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    mine = MPI_Wtime() - start;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_File_close(&file);
    MPI_Type_free(&filetype);
    MPI_Type_free(&piece);
    return all;
}

int main(int argc, char **argv)
{
    static const struct { const char *name, *sieving, *phases; int is_collective; } ways[] = {
        {"naive", "disable", "disable", 0}, {"sieved", "enable", "disable", 0}, {"collective", "disable", "enable", 1}};
    int bytes = 1 << 20, option;
    MPI_Init(&argc, &argv);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while ((option = getopt(argc, argv, "b:")) == 'b') {
        int mib = atoi(optarg);
        if (mib < 1 || mib > 1024) {
            fprintf(stderr, "files: -b %s: 1 to 1024 MiB are possible\n", optarg);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        bytes = mib << 20;
    }
    const char *name = optind < argc ? argv[optind] : "files.tmp";
    char *out = malloc(bytes), *in = malloc(bytes);
    if (option == '?' || !out || !in) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < bytes; i++) out[i] = (char) (i * 7 + i / 4096 + rank);
    if (rank == 0) printf("%8s %12s %10s %10s   MiB/s, %d ranks\n", "block", "way", "write", "read", size);
    for (int block = 16; block <= 16384; block *= 8) {
        for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
            MPI_Info info = hints(ways[way].sieving, ways[way].phases);
            double best[2] = {1e9, 1e9};
            for (int round = 0; round < 3; round++) {
                for (int writes = 1; writes >= 0; writes--) {
                    memset(in, 0, bytes);
                    double s = transfer(name, info, ways[way].is_collective, writes, writes ? out : in, bytes, block);
                    if (s < best[writes]) best[writes] = s;
                }
                if (memcmp(in, out, bytes) != 0) {
                    fprintf(stderr, "files: rank %d has read something else than it has written\n", rank);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
            }
            MPI_Info_free(&info);
            double mib = (double) size * bytes / (1 << 20);
            if (rank == 0) printf("%8d %12s %10.0f %10.0f\n", block, ways[way].name, mib / best[1], mib / best[0]);
        }
    }
    if (rank == 0) unlink(name);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
