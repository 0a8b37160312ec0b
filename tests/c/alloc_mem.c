// ranks: 1 2 4 7
// transports: all
/* Memory from the library: allocated, used in messages of all lengths and from its middle,
 * freed, used again. */
#include "check.h"

#include <stddef.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static int to, from;

static void *library_memory(size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(MPI_Alloc_mem((MPI_Aint) bytes, MPI_INFO_NULL, &memory));
    if (!CHECK(memory != NULL)) exit(3);
    return memory;
}

static uint64_t word_at(unsigned seed, size_t i) { return (i + 1) * 0x9e3779b97f4a7c15u + seed; }

static void fill_words(void *buffer, size_t bytes, unsigned seed)
{
    uint64_t *at = buffer;
    for (size_t i = 0; i < bytes / 8; i++) at[i] = word_at(seed, i);
}

static long long words_differ(const void *buffer, size_t bytes, unsigned seed)
{
    const uint64_t *at = buffer;
    for (size_t i = 0; i < bytes / 8; i++)
        if (at[i] != word_at(seed, i)) return (long long) i;
    return -1;
}

static int is_aligned(const void *memory, uintptr_t to_bytes) { return (uintptr_t) memory % to_bytes == 0; }

static void allocations(void)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 100000, MIB, 2 * MIB, 2 * MIB + 1, 64 * MIB};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    char *memory[SIZES];
    check_where("allocations");
    for (int k = 0; k < SIZES; k++) {
        memory[k] = library_memory(sizes[k]);
        CHECK(is_aligned(memory[k], _Alignof(max_align_t)) && is_aligned(memory[k], 64));
        if (sizes[k] > 0) {
            memory[k][0] = (char) k;
            memory[k][sizes[k] / 2] = memory[k][sizes[k] - 1] = (char) k;
        }
    }
    for (int k = 0; k < SIZES; k++)
        for (int l = 0; l < k; l++) {
            uintptr_t a = (uintptr_t) memory[k], b = (uintptr_t) memory[l];
            CHECK(a != b && (a < b ? a + sizes[k] <= b : b + sizes[l] <= a));
        }
    for (int k = 0; k < SIZES; k++)
        if (sizes[k] > 0)
            CHECK(memory[k][0] == k && memory[k][sizes[k] / 2] == k && memory[k][sizes[k] - 1] == k);
    for (int k = 0; k < SIZES; k += 2) CHECK_OK(MPI_Free_mem(memory[k]));
    for (int k = 1; k < SIZES; k += 2) {
        if (sizes[k] > 0) CHECK(memory[k][sizes[k] - 1] == k);
        CHECK_OK(MPI_Free_mem(memory[k]));
    }
}

/* Much more in sum than exists at a time: freed memory is used again. */
static void reuse(void)
{
    check_where("reuse");
    for (int k = 0; k < scaled(200); k++) {
        size_t bytes = (size_t) (1 + drawn(1, rank, k) % 64) * MIB;
        char *memory = library_memory(bytes);
        memory[0] = memory[bytes - 1] = 1;
        CHECK_OK(MPI_Free_mem(memory));
    }
}

/* More than fits into shared memory at once: all of it is usable. */
static void plenty(void)
{
    enum { BLOCKS = 24 };
    const size_t bytes = 64 * MIB;
    char *memory[BLOCKS];
    check_where("plenty");
    for (int k = 0; k < BLOCKS; k++) {
        memory[k] = library_memory(bytes);
        fill_words(memory[k] + bytes - MIB, MIB, k);
    }
    char *last = memory[BLOCKS - 1] + bytes - MIB, *in = memory[0];
    MPI_Status status;
    CHECK_OK(MPI_Sendrecv(last, MIB, MPI_BYTE, to, 1, in, MIB, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 1, MIB);
    CHECK_EQ(words_differ(in, MIB, BLOCKS - 1), -1);
    for (int k = 0; k < BLOCKS; k++) {
        CHECK_EQ(words_differ(memory[k] + bytes - MIB, MIB, k), -1);
        CHECK_OK(MPI_Free_mem(memory[k]));
    }
}

/* One message round the ring, from and to memory of the library and of malloc, at its beginning
 * and in its middle. */
static void exchange(size_t bytes, int out_is_library, int in_is_library, size_t shift)
{
    check_where("%zu bytes from %s to %s memory, shifted by %zu", bytes, out_is_library ? "library" : "ordinary",
                in_is_library ? "library" : "ordinary", shift);
    const size_t room = bytes + 2 * shift + 64;
    unsigned char *out = out_is_library ? library_memory(room) : allocate(room);
    unsigned char *in = in_is_library ? library_memory(room) : allocate(room);
    memset(in, 0xee, room);
    pattern_fill(out + shift, bytes, rank);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    CHECK_OK(MPI_Irecv(in + shift, (int) bytes, MPI_BYTE, from, 2, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend(out + shift, (int) bytes, MPI_BYTE, to, 2, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, statuses));
    CHECK_STATUS(&statuses[0], from, 2, (int) bytes);
    CHECK_EQ(pattern_differs(in + shift, bytes, from), -1);
    CHECK_EQ(bytes_differ(in, 0, shift, 0xee), -1);
    CHECK_EQ(bytes_differ(in, shift + bytes, room, 0xee), -1);
    /* An unexpected message, whose sender goes on, and may write its memory as soon as the send
     * is complete. */
    CHECK_OK(MPI_Isend(out + shift, (int) bytes, MPI_BYTE, to, 3, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    memset(in, 0xee, room);
    CHECK_OK(MPI_Recv(in + shift, (int) bytes, MPI_BYTE, from, 3, MPI_COMM_WORLD, &statuses[0]));
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    memset(out, 0xdd, room);
    CHECK_EQ(pattern_differs(in + shift, bytes, from), -1);
    CHECK_EQ(bytes_differ(in, shift + bytes, room, 0xee), -1);
    if (out_is_library) CHECK_OK(MPI_Free_mem(out)); else free(out);
    if (in_is_library) CHECK_OK(MPI_Free_mem(in)); else free(in);
}

static void exchanges(void)
{
    static const size_t sizes[] = {0, 8, 4096, 64 * KIB, 64 * KIB + 1, 200001, 3 * MIB};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int kinds = 0; kinds < 4; kinds++) {
            exchange(sizes[k], kinds & 1, kinds >> 1, 0);
            exchange(sizes[k], kinds & 1, kinds >> 1, 4099);
        }
}

static void longest(void)
{
    const size_t bytes = 64 * MIB;
    check_where("longest");
    char *out = library_memory(bytes), *in = library_memory(bytes);
    fill_words(out, bytes, rank);
    MPI_Status status;
    CHECK_OK(MPI_Sendrecv(out, (int) bytes, MPI_BYTE, to, 4, in, (int) bytes, MPI_BYTE, from, 4, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 4, (int) bytes);
    CHECK_EQ(words_differ(in, bytes, from), -1);
    CHECK_OK(MPI_Free_mem(out));
    CHECK_OK(MPI_Free_mem(in));
}

/* Several messages in one piece of memory at once: truncated ones, strided ones, and ones longer
 * than their receive. */
static void parts(void)
{
    enum { PARTS = 8, PART = 200 * KIB, GAP = 64 };
    check_where("parts");
    unsigned char *out = library_memory(PARTS * (PART + GAP)), *in = library_memory(PARTS * (PART + GAP));
    MPI_Request requests[2 * PARTS];
    memset(in, 0xee, PARTS * (PART + GAP));
    for (int k = 0; k < PARTS; k++) {
        unsigned char *at = in + (size_t) k * (PART + GAP);
        CHECK_OK(MPI_Irecv(at, PART, MPI_BYTE, from, 10 + k, MPI_COMM_WORLD, &requests[k]));
    }
    for (int k = PARTS - 1; k >= 0; k--) {
        unsigned char *at = out + (size_t) k * (PART + GAP);
        pattern_fill(at, PART, rank * PARTS + k);
        CHECK_OK(MPI_Isend(at, PART, MPI_BYTE, to, 10 + k, MPI_COMM_WORLD, &requests[PARTS + k]));
    }
    CHECK_OK(MPI_Waitall(2 * PARTS, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < PARTS; k++) {
        unsigned char *at = in + (size_t) k * (PART + GAP);
        CHECK_EQ(pattern_differs(at, PART, from * PARTS + k), -1);
        CHECK_EQ(bytes_differ(at, PART, PART + GAP, 0xee), -1);
    }

    MPI_Datatype strided;
    enum { BLOCKS = 1000, BLOCK = 300, STRIDE = 400 };
    CHECK_OK(MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &strided));
    CHECK_OK(MPI_Type_commit(&strided));
    for (int out_is_strided = 0; out_is_strided < 2; out_is_strided++) {
        check_where("strided at the %s", out_is_strided ? "sender" : "receiver");
        const size_t out_step = out_is_strided ? STRIDE : BLOCK, in_step = out_is_strided ? BLOCK : STRIDE;
        for (int b = 0; b < BLOCKS; b++) pattern_fill(out + b * out_step, BLOCK, rank + b);
        memset(in, 0xee, BLOCKS * STRIDE);
        CHECK_OK(MPI_Sendrecv(out, out_is_strided ? 1 : BLOCKS * BLOCK, out_is_strided ? strided : MPI_BYTE, to, 5, in,
                              out_is_strided ? BLOCKS * BLOCK : 1, out_is_strided ? MPI_BYTE : strided, from, 5,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int b = 0; b < BLOCKS; b++) CHECK_EQ(pattern_differs(in + b * in_step, BLOCK, from + b), -1);
    }
    CHECK_OK(MPI_Type_free(&strided));

    check_where("truncated");
    return_errors();
    enum { WANTED = 100 * KIB };
    pattern_fill(out, PART, rank);
    memset(in, 0xee, PART);
    CHECK_OK(MPI_Irecv(in, WANTED, MPI_BYTE, from, 6, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Send(out, PART, MPI_BYTE, to, 6, MPI_COMM_WORLD));
    CHECK_CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQ(bytes_differ(in, WANTED, PART, 0xee), -1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Free_mem(out));
    CHECK_OK(MPI_Free_mem(in));
}

static void many_readers(void)
{
    enum { LONG = 300 * KIB };
    check_where("many readers");
    unsigned char *memory = library_memory(LONG);
    memset(memory, 0, LONG);
    if (rank == 0) pattern_fill(memory, LONG, 77);
    CHECK_OK(MPI_Bcast(memory, LONG, MPI_BYTE, 0, MPI_COMM_WORLD));
    CHECK_EQ(pattern_differs(memory, LONG, 77), -1);
    int *numbers = library_memory(LONG), *sums = library_memory(LONG);
    const int count = LONG / (int) sizeof *numbers;
    for (int i = 0; i < count; i++) numbers[i] = i + rank;
    CHECK_OK(MPI_Allreduce(numbers, sums, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    int wrong = 0;
    for (int i = 0; i < count; i++) wrong += sums[i] != i * size + size * (size - 1) / 2;
    CHECK_EQ(wrong, 0);
    CHECK_OK(MPI_Free_mem(sums));
    CHECK_OK(MPI_Free_mem(numbers));
    CHECK_OK(MPI_Free_mem(memory));
}

/* Errors are raised on MPI_COMM_SELF: the calls have no other object. */
static void errors(void)
{
    check_where("errors");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    char *memory = library_memory(1000), *ordinary = allocate(100), *untouched = ordinary;
    CHECK_CLASS(MPI_Free_mem(ordinary), MPI_ERR_BASE);
    CHECK_CLASS(MPI_Free_mem(memory + 1), MPI_ERR_BASE);
    CHECK_CLASS(MPI_Free_mem(memory + 64), MPI_ERR_BASE);
    CHECK_CLASS(MPI_Free_mem(&ordinary), MPI_ERR_BASE);
    CHECK_OK(MPI_Free_mem(NULL)); /* as free(NULL) */
    CHECK_OK(MPI_Free_mem(memory));
    CHECK_CLASS(MPI_Free_mem(memory), MPI_ERR_BASE);

    char text[MPI_MAX_ERROR_STRING], address[32];
    int length;
    snprintf(address, sizeof address, "%p", (void *) memory);
    CHECK_OK(MPI_Error_string(MPI_ERR_BASE, text, &length));
    CHECK(strstr(text, address) != NULL);

    CHECK_CLASS(MPI_Alloc_mem(-1, MPI_INFO_NULL, &untouched), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Alloc_mem(100, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Alloc_mem(100, (MPI_Info) MPI_COMM_WORLD, &untouched), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Alloc_mem(INTPTR_MAX, MPI_INFO_NULL, &untouched), MPI_ERR_NO_MEM);
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint) 1 << 62, MPI_INFO_NULL, &untouched), MPI_ERR_NO_MEM);
    CHECK(untouched == ordinary);
    CHECK_OK(MPI_Alloc_mem(100, MPI_INFO_ENV, &memory));
    CHECK_OK(MPI_Free_mem(memory));
    free(ordinary);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    errors();
    allocations();
    reuse();
    plenty();
    exchanges();
    longest();
    parts();
    many_readers();
    return check_end();
}
