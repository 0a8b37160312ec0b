// ranks: 1 2 4
// transports: all
// not over: gm, because it knows the variables of shared memory and sockets alone
// not over: lamd, because it knows the variables of shared memory and sockets alone
// not over: nodes, because it knows the variables of shared memory and sockets alone
// not over: ofi, because it knows the variables of shared memory and sockets alone
/* Events: their description, sources, registrations, callbacks, contents, the end of
 * registrations, wrong arguments. */
#include "mpit.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { MESSAGES = 10, LIMIT = 4096 };

struct heard {
    int count, free_calls, first_tag, bad, source;
    number bytes;
    MPI_Count last_time;
    MPI_T_event_instance last;
    int frees_itself, floods;
};

static int event_index(const char *name)
{
    int index = -1;
    check_where("%s", name);
    CHECK_OK(MPI_T_event_get_index(name, &index));
    check_where("%s", "");
    return index;
}

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void) registration;
    struct heard *heard = user_data;
    heard->free_calls++;
    if (safety != MPI_T_CB_REQUIRE_NONE) heard->bad++;
}

static void unexpected_self(int tag, int times)
{
    int out = tag, in = -1;
    for (int i = 0; i < times; i++) {
        MPI_Send(&out, 1, MPI_INT, 0, tag, MPI_COMM_SELF);
        MPI_Recv(&in, 1, MPI_INT, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    }
}

static void on_message(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                       void *user_data)
{
    struct heard *heard = user_data;
    struct { int peer, tag; number bytes; } all = {-1, -1, 0};
    int peer = -2, tag = -2, source = -2;
    number bytes = 1;
    MPI_Count time = -1, now = -1;
    int good = MPI_T_event_copy(instance, &all) == MPI_SUCCESS && MPI_T_event_read(instance, 0, &peer) == MPI_SUCCESS &&
               MPI_T_event_read(instance, 1, &tag) == MPI_SUCCESS && MPI_T_event_read(instance, 2, &bytes) == MPI_SUCCESS;
    good = good && all.peer == peer && all.tag == tag && all.bytes == bytes && safety == MPI_T_CB_REQUIRE_NONE;
    good = good && MPI_T_event_read(instance, 3, &bytes) == MPI_T_ERR_INVALID_INDEX;
    good = good && MPI_T_event_read(instance, -1, &bytes) == MPI_T_ERR_INVALID_INDEX;
    good = good && MPI_T_event_read(instance, 0, NULL) == MPI_T_ERR_INVALID;
    good = good && MPI_T_event_copy(instance, NULL) == MPI_T_ERR_INVALID;
    good = good && MPI_T_event_read((MPI_T_event_instance) ((char *) instance + 1), 0, &peer) == MPI_T_ERR_INVALID_HANDLE;
    good = good && MPI_T_event_get_source(instance, &source) == MPI_SUCCESS;
    good = good && MPI_T_event_get_timestamp(instance, &time) == MPI_SUCCESS;
    good = good && MPI_T_source_get_timestamp(source, &now) == MPI_SUCCESS && time <= now && time >= heard->last_time;
    if (!good) heard->bad++;
    if (heard->count++ == 0) heard->first_tag = tag;
    heard->bytes += all.bytes;
    heard->last_time = time;
    heard->last = instance;
    heard->source = peer;
    if (heard->frees_itself && heard->count == heard->frees_itself) {
        if (MPI_T_event_handle_free(registration, user_data, on_free) != MPI_SUCCESS || heard->free_calls != 0) heard->bad++;
    }
    if (heard->floods) {
        /* Callbacks may call MPI; events meanwhile come later. */
        int floods = heard->floods;
        heard->floods = 0;
        unexpected_self(77, floods);
        if (heard->count != 1) heard->bad++;
    }
}

static MPI_T_event_registration listen_to(const char *name, void *object, struct heard *heard)
{
    MPI_T_event_registration registration = 0;
    memset(heard, 0, sizeof *heard);
    CHECK_OK(MPI_T_event_handle_alloc(event_index(name), object, MPI_INFO_NULL, &registration));
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, heard, on_message));
    return registration;
}

static void end(MPI_T_event_registration registration, struct heard *heard)
{
    CHECK_OK(MPI_T_event_handle_free(registration, heard, on_free));
    CHECK_EQ(heard->free_calls, 1);
    CHECK_EQ(heard->bad, 0);
    CHECK_EQ(MPI_T_event_handle_free(registration, heard, on_free), MPI_T_ERR_INVALID_HANDLE);
}

static void description(void)
{
    int count = 0, sources = 0;
    CHECK_OK(MPI_T_event_get_num(&count));
    CHECK_OK(MPI_T_source_get_num(&sources));
    CHECK(count >= 5 && sources >= 1);
    for (int i = 0; i < count; i++) {
        char name[64], text[512];
        int name_len = sizeof name, text_len = sizeof text, level = -1, elements = 8, bind = -1, named = 0, few = 0;
        MPI_Datatype types[8];
        MPI_Aint places[8];
        MPI_T_enum names = MPI_T_ENUM_NULL;
        MPI_Info info = MPI_INFO_NULL;
        CHECK_OK(MPI_T_event_get_info(i, name, &name_len, &level, types, places, &elements, &names, &info, text, &text_len,
                                      &bind));
        check_where("%s", name);
        CHECK_EQ(event_index(name), i);
        CHECK(strlen(name) + 1 == (size_t) name_len && strlen(text) + 1 == (size_t) text_len);
        CHECK(elements >= 1 && elements <= 8 && places[0] == 0);
        for (int e = 0; e < elements; e++) {
            int bytes = 0;
            MPI_Type_size(types[e], &bytes);
            CHECK(places[e] % bytes == 0 && (e == 0 || places[e] > places[e - 1]));
        }
        CHECK_OK(MPI_T_enum_get_info(names, &named, NULL, NULL));
        CHECK_EQ(named, elements);
        CHECK(info != MPI_INFO_NULL);
        MPI_Info_free(&info);
        CHECK(bind == MPI_T_BIND_NO_OBJECT || bind == MPI_T_BIND_MPI_COMM);
        types[0] = MPI_DATATYPE_NULL;
        CHECK_OK(MPI_T_event_get_info(i, NULL, NULL, NULL, types, places, &few, NULL, NULL, NULL, NULL, NULL));
        CHECK_EQ(few, elements);
        CHECK(types[0] == MPI_DATATYPE_NULL);
        CHECK_OK(MPI_T_event_get_info(i, NULL, NULL, NULL, types, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    }
    check_where("%s", "");
    for (int i = 0; i < sources; i++) {
        char name[64], text[256];
        int name_len = sizeof name, text_len = sizeof text;
        MPI_T_source_order order;
        MPI_Count ticks = 0, most = 0, a = -1, b = -1;
        MPI_Info info = MPI_INFO_NULL;
        CHECK_OK(MPI_T_source_get_info(i, name, &name_len, text, &text_len, &order, &ticks, &most, &info));
        CHECK(strlen(name) + 1 == (size_t) name_len && strlen(text) + 1 == (size_t) text_len);
        CHECK(order == MPI_T_SOURCE_ORDERED && ticks > 0 && most > ticks);
        MPI_Info_free(&info);
        CHECK_OK(MPI_T_source_get_timestamp(i, &a));
        CHECK_OK(MPI_T_source_get_timestamp(i, &b));
        CHECK(a >= 0 && a <= b);
    }
    int n;
    MPI_Count time;
    CHECK_EQ(MPI_T_event_get_num(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_event_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_event_get_index("none", &n), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_event_get_index(NULL, &n), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_source_get_num(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_source_get_info(sources, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_source_get_timestamp(-1, &time), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_source_get_timestamp(0, NULL), MPI_T_ERR_INVALID);
}

static void registrations(void)
{
    int index = event_index("unexpected_message_matched"), bound = event_index("comm_unexpected_message_matched");
    MPI_T_event_registration registration = 0, none = 0;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_EQ(MPI_T_event_handle_alloc(-1, NULL, MPI_INFO_NULL, &none), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_event_handle_alloc(bound, NULL, MPI_INFO_NULL, &none), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_event_handle_alloc(bound, &comm, MPI_INFO_NULL, &none), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_handle_free(none, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_set_dropped_handler(none, NULL), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_handle_get_info(none, &info), MPI_T_ERR_INVALID_HANDLE);
    CHECK_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
    MPI_Info_create(&info);
    MPI_Info_set(info, "some_hint", "1");
    CHECK_OK(MPI_T_event_handle_set_info(registration, info));
    MPI_Info_free(&info);
    CHECK_OK(MPI_T_event_handle_get_info(registration, &info));
    int keys = -1;
    MPI_Info_get_nkeys(info, &keys);
    CHECK_EQ(keys, 0);
    MPI_Info_free(&info);
    CHECK_EQ(MPI_T_event_handle_get_info(registration, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_event_register_callback(registration, (MPI_T_cb_safety) 17, MPI_INFO_NULL, NULL, on_message),
             MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info), MPI_T_ERR_INVALID);
    struct heard heard = {0}, least = {0};
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &heard, on_message));
    CHECK_OK(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL));
    CHECK_OK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, &info));
    MPI_Info_free(&info);
    unexpected_self(3, 2);
    CHECK_EQ(heard.count, 2);
    /* The lower of two safety levels counts while it is registered. */
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &least, on_message));
    unexpected_self(3, 2);
    CHECK_EQ(heard.count, 2);
    CHECK_EQ(least.count, 2);
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL));
    unexpected_self(3, 2);
    CHECK_EQ(heard.count, 4);
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, NULL));
    unexpected_self(3, 2);
    CHECK_EQ(heard.count, 4);
    end(registration, &heard);
    int word;
    CHECK_EQ(MPI_T_event_read(heard.last, 0, &word), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_copy(heard.last, &word), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_get_source(heard.last, &word), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_get_timestamp(heard.last, &heard.last_time), MPI_T_ERR_INVALID_HANDLE);
}

static void unexpected(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    struct heard all, ours, others;
    MPI_T_event_registration r_all = listen_to("unexpected_message_matched", NULL, &all);
    MPI_T_event_registration r_ours = listen_to("comm_unexpected_message_matched", &comm, &ours);
    MPI_T_event_registration r_others = listen_to("comm_unexpected_message_matched", &(MPI_Comm){MPI_COMM_SELF}, &others);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, in = -1, word = 0;
    MPI_Request requests[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) MPI_Isend(&i, 1, MPI_INT, next, 10 + i, comm, &requests[i]);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(&word, 1, MPI_INT, next, 9, &word, 1, MPI_INT, previous, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        MPI_Message message;
        switch (i % 4) {
        case 0:
            MPI_Recv(&in, 1, MPI_INT, previous, 10 + i, comm, MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 10 + i, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        case 2:
            MPI_Mprobe(previous, 10 + i, comm, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
            break;
        case 3:
            MPI_Probe(previous, 10 + i, comm, MPI_STATUS_IGNORE);
            MPI_Recv(&in, 1, MPI_INT, previous, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        }
        MPI_Iprobe(previous, 8, comm, &word, MPI_STATUS_IGNORE);
        CHECK_EQ(ours.count, i + 1);
    }
    CHECK_EQ(ours.first_tag, 10);
    CHECK_EQ(ours.bytes, MESSAGES * sizeof(int));
    CHECK_EQ(ours.source, previous);
    CHECK(all.count >= ours.count);
    CHECK_EQ(others.count, 0);
    end(r_all, &all);
    end(r_ours, &ours);
    end(r_others, &others);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(ours.count, MESSAGES);
    MPI_Comm_free(&comm);
}

static void rendezvous(void)
{
    /* Too long to be eager, also as an answer. */
    enum { BYTES = 1200000 };
    struct heard sent, received;
    MPI_T_event_registration r_sent = listen_to("rendezvous_begun", NULL, &sent);
    MPI_T_event_registration r_received = listen_to("rendezvous_matched", NULL, &received);
    char *buffer = calloc(2, BYTES);
    int peer = rank ^ 1;
    if (peer < size) {
        for (int i = 0; i < MESSAGES; i++)
            MPI_Sendrecv(buffer, BYTES, MPI_BYTE, peer, i, buffer + BYTES, BYTES, MPI_BYTE, peer, i, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        MPI_Iprobe(peer, 99, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
        CHECK_EQ(sent.count, MESSAGES);
        CHECK_EQ(sent.bytes, MESSAGES * (number) BYTES);
        CHECK_EQ(sent.source, peer);
        CHECK_EQ(received.count, MESSAGES);
        CHECK_EQ(received.bytes, MESSAGES * (number) BYTES);
        CHECK_EQ(received.source, peer);
    } else {
        CHECK_EQ(sent.count, 0);
    }
    free(buffer);
    end(r_sent, &sent);
    end(r_received, &received);
}

/* A callback may free its registration; the last function is called after it has returned. */
static void frees_itself(void)
{
    struct heard heard;
    listen_to("comm_unexpected_message_matched", &(MPI_Comm){MPI_COMM_SELF}, &heard);
    heard.frees_itself = 3;
    unexpected_self(4, 8);
    CHECK_EQ(heard.count, 3);
    CHECK_EQ(heard.free_calls, 1);
    CHECK_EQ(heard.bad, 0);
}

static number dropped;
static int dropped_bad;

static void on_drop(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety,
                    void *user_data)
{
    (void) registration;
    if (count < 1 || source != 0 || safety != MPI_T_CB_REQUIRE_NONE || !user_data) dropped_bad++;
    dropped += (number) count;
}

/* A callback that causes more events than can wait: the lost ones are counted. */
static void too_many(void)
{
    struct heard heard;
    MPI_T_event_registration registration =
        listen_to("comm_unexpected_message_matched", &(MPI_Comm){MPI_COMM_SELF}, &heard);
    CHECK_OK(MPI_T_event_set_dropped_handler(registration, on_drop));
    heard.floods = LIMIT + 1000;
    unexpected_self(5, 1);
    for (int i = 0; i < 100 && heard.count + dropped < LIMIT + 1001; i++) unexpected_self(6, 1);
    CHECK(dropped > 0);
    CHECK(heard.count > 1000);
    CHECK(heard.count + dropped >= LIMIT + 1001);
    CHECK_EQ(dropped_bad, 0);
    end(registration, &heard);
}

struct collective_heard { int count, bad, ranks, algorithm; number all; };

static void on_collective(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                          void *user_data)
{
    (void) registration, (void) safety;
    struct collective_heard *heard = user_data;
    if (MPI_T_event_read(instance, 1, &heard->algorithm) || MPI_T_event_read(instance, 2, &heard->ranks)) heard->bad++;
    if (MPI_T_event_read(instance, 3, &heard->all)) heard->bad++;
    heard->count++;
}

static void collective(void)
{
    struct collective_heard heard = {0};
    MPI_T_event_registration registration;
    CHECK_OK(MPI_T_event_handle_alloc(event_index("collective_started"), NULL, MPI_INFO_NULL, &registration));
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &heard, on_collective));
    static char word[300001]; /* a shorter one, or a blocking one, would not use the algorithms */
    for (int i = 0; i < 5; i++) {
        MPI_Request broadcast;
        MPI_Ibcast(word, sizeof word, MPI_CHAR, 0, MPI_COMM_WORLD, &broadcast);
        MPI_Wait(&broadcast, MPI_STATUS_IGNORE);
    }
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
    CHECK_EQ(heard.count, 5);
    CHECK_EQ(heard.ranks, size);
    CHECK_EQ(heard.all, sizeof word);
    CHECK(heard.algorithm > 0);
    CHECK_EQ(heard.bad, 0);
    CHECK_OK(MPI_T_event_handle_free(registration, NULL, NULL));
}

static void on_connection(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                          void *user_data)
{
    (void) registration, (void) safety;
    int peer = -1;
    if (MPI_T_event_read(instance, 0, &peer) == MPI_SUCCESS && peer >= 0 && peer < size) ++*(int *) user_data;
}

static int made, remade;

/* A collective would use shared memory. */
static void sum_by_messages(const int *word, int *sum)
{
    *sum = *word;
    for (int step = 1; step < size; step++) {
        int to = (rank + step) % size, from = (rank - step + size) % size, other = 0;
        MPI_Sendrecv(word, 1, MPI_INT, to, 0, &other, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        *sum += other;
    }
}

static void connections(MPI_T_event_registration r_made, MPI_T_event_registration r_remade)
{
    MPI_T_pvar_session session;
    CHECK_OK(MPI_T_pvar_session_create(&session));
    int tcp = is_over_tcp(session);
    MPI_T_pvar_handle up = pvar(session, "tcp_connections", NULL), again = started(session, "tcp_connections_remade", NULL);
    MPI_T_pvar_handle all = started(session, "tcp_connections_made", NULL);
    int word = rank, sum = 0;
    /* More than can leave before a connection is used. */
    for (int i = 0; i < 150; i++) sum_by_messages(&word, &sum);
    CHECK(tcp && size > 1 ? made >= 1 : made == 0);
    CHECK(tcp && size > 1 ? value(session, up) >= 1 : value(session, up) == 0);
    if (tcp && rank == 0) {
        for (int fd = 3; fd < 256; fd++) {
            struct sockaddr_storage peer;
            socklen_t length = sizeof peer;
            if (getpeername(fd, (struct sockaddr *) &peer, &length) != 0) continue;
            if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) shutdown(fd, SHUT_RDWR);
        }
    }
    for (int i = 0; i < 20; i++) sum_by_messages(&word, &sum);
    CHECK_EQ(sum, size * (size - 1) / 2);
    if (tcp && size > 1 && rank == 0) {
        CHECK(remade >= 1);
        CHECK_EQ(value(session, again), remade);
        CHECK_EQ(value(session, all), made + remade);
    } else if (!tcp || size == 1) {
        CHECK_EQ(remade, 0);
    }
    CHECK_OK(MPI_T_event_handle_free(r_made, NULL, NULL));
    CHECK_OK(MPI_T_event_handle_free(r_remade, NULL, NULL));
    CHECK_OK(MPI_T_pvar_session_free(&session));
}

int main(int argc, char **argv)
{
    int provided;
    MPI_T_event_registration r_made, r_remade;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    /* A registration before MPI_Init gets all later events. */
    CHECK_OK(MPI_T_event_handle_alloc(event_index("connection_made"), NULL, MPI_INFO_NULL, &r_made));
    CHECK_OK(MPI_T_event_handle_alloc(event_index("connection_remade"), NULL, MPI_INFO_NULL, &r_remade));
    CHECK_OK(MPI_T_event_register_callback(r_made, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &made, on_connection));
    CHECK_OK(MPI_T_event_register_callback(r_remade, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &remade, on_connection));
    check_begin(&argc, &argv);
    connections(r_made, r_remade);
    description();
    registrations();
    unexpected();
    rendezvous();
    frees_itself();
    too_many();
    collective();
    int result = check_end();
    MPI_T_finalize();
    return result;
}
