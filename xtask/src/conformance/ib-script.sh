# Runs in the emulated machine. PREFIX: an installation; PROGRAMS: compiled tests, and heat; PYTHON and SUITE: mpi4py's, if that is run; PART:
# what to run, one of the functions below. A line for each job goes to $OUT/report.
export PATH=$PREFIX/bin:$PATH LD_LIBRARY_PATH=$PREFIX/lib
cd /run
: >"$OUT/report"
failures=0

# job NAME RANKS SECONDS PROGRAM [OPTIONS]: succeeds if the program does. $PROGRAM_ARGUMENTS: those of the program.
job() {
    local name=$1 ranks=$2 seconds=$3 program=$4 status start=$SECONDS
    shift 4
    # shellcheck disable=SC2086 # lists of words
    timeout "$((seconds + 10))" ${BEFORE:-} mpirun -n "$ranks" --timeout "$seconds" --mca rpi ib --mca rpi_ib_shm 0 --mca coll ^shmem "$@" \
        "$program" ${PROGRAM_ARGUMENTS:-} >/run/output 2>&1 </dev/null
    status=$?
    if [ $status = 0 ]; then
        echo "ok    $name ($((SECONDS - start)) s)" >>"$OUT/report"
    else
        fail "$name: status $status"
    fi
}

# fail WHAT: counts a failure, and shows how the output of the last job ends.
fail() {
    failures=$((failures + 1))
    { echo "FAIL  $1"; tail -n 12 /run/output | sed 's/^/      /'; } >>"$OUT/report"
}

# What a rank runs behind MPI_Init: it waits until all have come so far, and the port is taken down if that is to be before any message.
cat >/run/begin <<'BEGIN'
#!/bin/bash
echo >>/run/begun
until [ -e /run/taken ]; do sleep 0.1; done
BEGIN
chmod +x /run/begin

# take_down AFTER LENGTH RANKS: when all ranks have begun, takes the port of the first device down after AFTER seconds, before any message if
# that is 0, and up again after LENGTH seconds. It is no process of the job, whose launcher would end it with the job.
take_down() {
    until [ "$(wc -l </run/begun)" -ge "$3" ]; do sleep 0.1; done
    [ "$1" != 0 ] || ip link set dummy0 down
    touch /run/taken
    sleep "$1"
    ip link set dummy0 down
    sleep "$2"
    ip link set dummy0 up
}

# down AFTER LENGTH NAME RANKS SECONDS PROGRAM [OPTIONS]: a job whose port is taken down.
down() {
    local after=$1 length=$2 name=$3 taker
    shift 3
    rm -f /run/taken
    : >/run/begun
    take_down "$after" "$length" "$1" &
    taker=$!
    CHECK_BEGIN=/run/begin job "$name" "$@" --mca rpi_ib_hca_id rxe0
    # The ranks have not come so far.
    [ -e /run/taken ] || kill $taker
    wait $taker
}

# refused NAME TEXT PROGRAM...: a job that has to end with this text.
refused() {
    local name=$1 text=$2
    shift 2
    if ! timeout 60 mpirun -n 2 --timeout 50 --mca rpi ib "$@" >/run/output 2>&1 </dev/null && grep -q "$text" /run/output; then
        echo "ok    $name: refused" >>"$OUT/report"
    else
        fail "$name is not refused"
    fi
}

heat=$PROGRAMS/heat
long=$PROGRAMS/p2p_remapped

short() {
    job "heat, 4 ranks" 4 100 "$heat"
    CHECK_RDMA=1 job "long messages" 2 200 "$long"
    CHECK_ATOMICS=1 job "words of windows" 2 100 "$PROGRAMS/win_words"
    job "puts and gets" 2 100 "$PROGRAMS/win_put_get"
    job "collectives" 2 100 "$PROGRAMS/coll_basic"
    down 1 2 "short messages, the port down for 2 seconds" 2 100 "$PROGRAMS/p2p_basic"
}

basic() {
    local ranks envelopes srq mtu
    for ranks in 2 4; do job "heat, $ranks ranks" $ranks 100 "$heat"; done
    job "heat, 8 ranks on 2 cores" 8 200 "$heat"
    for envelopes in 1 2; do
        for srq in 0 1; do
            job "heat, $envelopes envelopes, rpi_ib_srq $srq" 2 100 "$heat" --mca rpi_ib_num_envelopes $envelopes --mca rpi_ib_srq $srq
        done
    done
    for mtu in 256 512 1024 2048 4096; do job "heat, MTU $mtu" 2 100 "$heat" --mca rpi_ib_mtu $mtu; done
    job "the second device" 2 100 "$heat" --mca rpi_ib_hca_id rxe1
}

long() {
    local ranks mtu envelopes srq
    export CHECK_RDMA=1
    for ranks in 2 4; do job "long messages, $ranks ranks" $ranks 200 "$long"; done
    for mtu in 256 512 2048 4096; do job "long messages, MTU $mtu" 2 200 "$long" --mca rpi_ib_mtu $mtu; done
    for envelopes in 1 2; do
        for srq in 0 1; do
            job "long messages, $envelopes envelopes, rpi_ib_srq $srq" 2 200 "$long" \
                --mca rpi_ib_num_envelopes $envelopes --mca rpi_ib_srq $srq
        done
    done
    unset CHECK_RDMA
    # Envelopes can be locked, the longer messages cannot, and go in envelopes. Root may lock anything, unless it gives up that right.
    ulimit -S -l 1024
    BEFORE="setpriv --bounding-set=-ipc_lock" job "long messages, ulimit -l 1024" 2 200 "$long"
    grep -q "ulimit -l" /run/output || fail "nothing was said of ulimit -l"
    ulimit -S -l unlimited
}

ports() {
    local after srq program
    export CHECK_RDMA=1
    for after in 0 1 3; do
        down $after 2 "long messages, the port down for 2 seconds after $after" 2 200 "$long"
    done
    down 0 2 "long messages, 4 ranks, the port down before the first one" 4 200 "$long"
    for srq in 0 1; do
        down 2 2 "long messages, the port down, 1 envelope, rpi_ib_srq $srq" 2 200 "$long" \
            --mca rpi_ib_num_envelopes 1 --mca rpi_ib_srq $srq
    done
    unset CHECK_RDMA
    for after in 0 1 3; do
        down $after 2 "short messages, the port down for 2 seconds after $after" 2 200 "$PROGRAMS/p2p_basic"
    done
    for after in 0 3; do
        down $after 20 "the port down for longer than rpi_ib_timeout, after $after seconds" 2 100 "$PROGRAMS/ib_down" \
            --mca rpi_ib_timeout 3 --mca mpi_ft_enable 1
        grep -q "nothing goes to process .* has failed: .*vendor error\|cannot be made" /run/output ||
            fail "peer, operation and error are not named"
    done
    # The two devices are on networks of their own, so nothing that one sends is ever answered by the other.
    cat >/run/apart <<'APART'
#!/bin/bash
OXMPI_MCA_rpi_ib_hca_id=rxe$OMPI_COMM_WORLD_RANK exec "$@"
APART
    chmod +x /run/apart
    PROGRAM_ARGUMENTS=$PROGRAMS/ib_down job "ranks on networks that do not reach each other" 2 100 /run/apart \
        --mca rpi_ib_timeout 3 --mca mpi_ft_enable 1
    grep -q "nothing goes to process .* has failed: .*vendor error" /run/output ||
        fail "peer, operation and vendor error are not named"
    # A device that is not there: the first rank has a port, the second one none.
    cat >/run/without <<'WITHOUT'
#!/bin/bash
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export OXMPI_MCA_rpi_ib_hca_id=none
exec "$@"
WITHOUT
    chmod +x /run/without
    for program in p2p_basic p2p_remapped; do
        PROGRAM_ARGUMENTS=$PROGRAMS/$program job "$program, one rank without a port" 2 200 /run/without --mca rpi_ib_fallback 1
    done
    refused "one rank without a port" "host guest has no port for 'ib'" /run/without "$PROGRAMS/p2p_basic"
}

windows() {
    local ranks program
    export CHECK_RDMA=1
    for ranks in 2 4; do job "windows, $ranks ranks" $ranks 200 "$PROGRAMS/win_far"; done
    job "windows, 1 envelope" 2 200 "$PROGRAMS/win_far" --mca rpi_ib_num_envelopes 1
    down 2 2 "windows, the port down for 2 seconds" 2 200 "$PROGRAMS/win_far"
    unset CHECK_RDMA
    CHECK_RDMA=0 job "windows by messages, rpi_ib_rma 0" 2 200 "$PROGRAMS/win_far" --mca rpi_ib_rma 0
    for ranks in 2 4; do CHECK_ATOMICS=1 job "words, $ranks ranks" $ranks 200 "$PROGRAMS/win_words"; done
    CHECK_ATOMICS=1 job "words, 1 envelope" 2 200 "$PROGRAMS/win_words" --mca rpi_ib_num_envelopes 1
    CHECK_ATOMICS=1 down 1 2 "words, the port down for 2 seconds" 2 200 "$PROGRAMS/win_words"
    CHECK_ATOMICS=0 job "words by messages, rpi_ib_rma 0" 2 200 "$PROGRAMS/win_words" --mca rpi_ib_rma 0
    # Ranks that share memory leave words to the processor.
    CHECK_ATOMICS=0 job "words in shared memory" 2 200 "$PROGRAMS/win_words" --mca rpi_ib_shm 1
    export CHECK_SHORT_ACCUMULATES=1
    for program in win_atomics win_accumulate win_lock win_pscw; do job "$program, words" 2 200 "$PROGRAMS/$program"; done
    unset CHECK_SHORT_ACCUMULATES
}

tests() {
    local program
    for program in $TESTS; do job "$program" 2 100 "$PROGRAMS/$program"; done
}

# modules RANKS: mpi4py's, each in a job of its own.
modules() {
    local module
    export PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
    for module in $MODULES; do
        PROGRAM_ARGUMENTS="-m mpi4py $SUITE/main.py -q -f $module" job "mpi4py $module, $1 ranks" "$1" 1200 "$PYTHON"
    done
}
mpi4py_2() { modules 2; }
mpi4py_4() { modules 4; }

ulimit -l unlimited
# The machine is slow.
export CHECK_SECONDS=200 CHECK_DIVISOR=10
"$PART"
exit $failures
