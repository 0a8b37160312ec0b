/* A library that takes over, when it is opened and again when it is started, what belongs to the
 * program: handlers of signals, the thread's signal mask, and its stack for handlers. It has the
 * names of all functions that OxMPI looks for in the libraries that it opens at run time. Those
 * that start such a library take over again, and fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* Which of the variables that ask libraries to leave signals alone were in the environment when it
 * took over last. */
int requests;

static void handler(int signal)
{
    (void)signal;
}

/* Takes signals over, and counts that in a variable of the environment, which stays. */
int take_signals(void)
{
    static char stack[1 << 16];
    const int signals[] = {SIGILL, SIGABRT, SIGTERM, SIGUSR1, SIGCHLD, SIGRTMIN + 3};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    const char *before = getenv("OXMPI_TEST_TAKEN");
    char count[12];
    sigset_t blocked;

    for (unsigned at = 0; at < sizeof signals / sizeof *signals; at++)
        sigaction(signals[at], &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    sigaltstack(&own, NULL);
    requests = !!getenv("IPATH_NO_BACKTRACE") + 2 * !!getenv("HFI_NO_BACKTRACE")
             + 4 * !!getenv("UCX_ERROR_SIGNALS");
    snprintf(count, sizeof count, "%d", before ? atoi(before) + 1 : 1);
    return setenv("OXMPI_TEST_TAKEN", count, 1);
}

__attribute__((constructor)) static void open_library(void)
{
    take_signals();
}

#define START(name, ...) int name(void) { take_signals(); __VA_ARGS__; }
#define NO(name) int name(void) { return -1; }
#define DATA(name) long name[512];

/* libfabric: one provider of which nothing is known. */
static void *block(void)
{
    void **block = calloc(64, sizeof *block);
    for (int at = 8; at < 64; at++)
        block[at] = calloc(64, sizeof *block);
    return block;
}
unsigned fi_version(void) { return 1 << 16 | 14; }
void *fi_dupinfo(void *info) { (void)info; return block(); }
int fi_getinfo(unsigned version, void *node, void *service, unsigned long flags, void *hints,
               void **found)
{
    (void)version, (void)node, (void)service, (void)flags, (void)hints;
    *found = block();
    return take_signals();
}
START(fi_fabric, return -5)
NO(fi_freeinfo)
const char *fi_strerror(int error) { (void)error; return "refused"; }

/* libibverbs: no devices, as the kernel says. */
START(ibv_fork_init, return 0)
START(ibv_get_device_list, errno = ENOSYS; return 0)
const char *ibv_wc_status_str(int status) { (void)status; return "refused"; }
NO(ibv_free_device_list) NO(ibv_get_device_name) NO(ibv_open_device) NO(ibv_close_device)
NO(ibv_query_device) NO(ibv_query_port)
NO(ibv_query_gid) NO(ibv_alloc_pd) NO(ibv_dealloc_pd) NO(ibv_reg_mr) NO(ibv_dereg_mr)
NO(ibv_create_comp_channel)
NO(ibv_destroy_comp_channel) NO(ibv_create_cq) NO(ibv_resize_cq) NO(ibv_destroy_cq)
NO(ibv_get_cq_event) NO(ibv_ack_cq_events)
NO(ibv_create_srq) NO(ibv_destroy_srq) NO(ibv_create_qp) NO(ibv_modify_qp) NO(ibv_destroy_qp)

/* UCC 1.0. */
void ucc_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    *major = 1, *minor = *release = 0;
}
const char *ucc_status_string(int status) { (void)status; return "refused"; }
int ucc_lib_config_read(void *prefix, void *file, void **config)
{
    (void)prefix, (void)file, *config = NULL;
    return 0;
}
START(ucc_init_version, return -1)
NO(ucc_lib_config_modify) NO(ucc_lib_config_release) NO(ucc_lib_get_attr) NO(ucc_finalize)
NO(ucc_context_config_read)
NO(ucc_context_config_release) NO(ucc_context_create) NO(ucc_context_progress)
NO(ucc_team_create_post) NO(ucc_team_create_test)
NO(ucc_team_destroy) NO(ucc_collective_init) NO(ucc_collective_post) NO(ucc_collective_finalize)

/* HCOLL. */
const char *hcoll_get_version(void) { return "4"; }
START(hcoll_read_init_opts, return -1)
NO(hcoll_init_with_opts) NO(hcoll_free_init_opts) NO(hcoll_create_context) NO(hcoll_context_free)
NO(hcoll_finalize)
DATA(hcoll_rte_functions) DATA(hcoll_collectives) DATA(hcoll_progress_fn) DATA(byte_dte)
DATA(integer16_dte) DATA(integer32_dte)
DATA(integer64_dte) DATA(u_byte_dte) DATA(u_integer16_dte) DATA(u_integer32_dte)
DATA(u_integer64_dte) DATA(float32_dte)
DATA(float64_dte) DATA(float32_complex_dte) DATA(float64_complex_dte) DATA(hcoll_dte_op_max)
DATA(hcoll_dte_op_min)
DATA(hcoll_dte_op_sum) DATA(hcoll_dte_op_prod) DATA(hcoll_dte_op_land) DATA(hcoll_dte_op_band)
DATA(hcoll_dte_op_lor)
DATA(hcoll_dte_op_bor) DATA(hcoll_dte_op_lxor) DATA(hcoll_dte_op_bxor)

/* GM. */
START(gm_init, return 1)
const char *gm_strerror(int status) { (void)status; return "refused"; }
NO(gm_finalize) NO(gm_open) NO(gm_close) NO(gm_num_send_tokens) NO(gm_num_receive_tokens)
NO(gm_min_size_for_length)
NO(gm_max_length_for_size) NO(gm_get_node_id) NO(gm_node_id_to_global_id)
NO(gm_global_id_to_node_id) NO(gm_dma_malloc)
NO(gm_set_acceptable_sizes) NO(gm_allow_remote_memory_access)
NO(gm_provide_receive_buffer_with_tag) NO(gm_send_with_callback)
NO(gm_put) NO(gm_get) NO(gm_register_memory) NO(gm_deregister_memory) NO(gm_drop_sends)
NO(gm_receive) NO(gm_unknown)

/* Portals 4. */
START(PtlInit, return 1)
NO(PtlFini) NO(PtlNIInit) NO(PtlNIFini) NO(PtlGetUid) NO(PtlGetPhysId) NO(PtlEQAlloc)
NO(PtlEQFree) NO(PtlEQGet) NO(PtlPTAlloc)
NO(PtlPTFree) NO(PtlPTEnable) NO(PtlMDBind) NO(PtlMDRelease) NO(PtlMEAppend) NO(PtlMEUnlink)
NO(PtlMESearch) NO(PtlPut) NO(PtlGet)

/* CUDA's driver. */
START(cuInit, return 100)
NO(cuDriverGetVersion) NO(cuPointerGetAttributes) NO(cuCtxPushCurrent_v2) NO(cuCtxPopCurrent_v2)
NO(cuDeviceGet)
NO(cuDevicePrimaryCtxRetain) NO(cuMemcpyDtoHAsync_v2) NO(cuMemcpyHtoDAsync_v2)
NO(cuMemcpy2DAsync_v2) NO(cuStreamCreate)
NO(cuStreamSynchronize) NO(cuStreamDestroy_v2) NO(cuMemHostRegister_v2) NO(cuMemHostUnregister)
NO(cuGetErrorString)
