# Runs in the emulated machine. PREFIX: an installation; PROGRAMS: compiled tests, and heat. A line for each job goes to $OUT/report.
export PATH=$PREFIX/bin:$PATH LD_LIBRARY_PATH=$PREFIX/lib
cd /run
: >"$OUT/report"
failures=0

# job NAME RANKS SECONDS PROGRAM [OPTIONS]: succeeds if the program does.
job() {
    local name=$1 ranks=$2 seconds=$3 program=$4 status
    shift 4
    timeout "$((seconds + 10))" ${BEFORE:-} mpirun -n "$ranks" --timeout "$seconds" --mca rpi ib --mca rpi_ib_shm 0 --mca coll ^shmem "$@" \
        "$PROGRAMS/$program" >/run/output 2>&1 </dev/null
    status=$?
    if [ $status = 0 ]; then
        echo "ok    $name" >>"$OUT/report"
    else
        failures=$((failures + 1))
        { echo "FAIL  $name: status $status"; tail -n 5 /run/output | sed 's/^/      /'; } >>"$OUT/report"
    fi
}

ulimit -l unlimited
# The machine is slow.
export CHECK_SECONDS=200
for ranks in 2 4; do job "heat, $ranks ranks" $ranks 100 heat; done
job "heat, 8 ranks on 2 cores" 8 200 heat
for envelopes in 1 2; do
    for srq in 0 1; do
        job "heat, $envelopes envelopes, rpi_ib_srq $srq" 2 100 heat \
            --mca rpi_ib_num_envelopes $envelopes --mca rpi_ib_srq $srq
    done
done
for mtu in 256 512 1024 2048 4096; do job "heat, MTU $mtu" 2 100 heat --mca rpi_ib_mtu $mtu; done
job "the second device" 2 100 heat --mca rpi_ib_hca_id rxe1
(sleep 4; ip link set dummy0 down; sleep 2; ip link set dummy0 up) &
job "heat, the port down for 2 seconds" 2 100 heat
wait
export CHECK_RDMA=1
for ranks in 2 4; do job "long messages, $ranks ranks" $ranks 200 p2p_remapped; done
for mtu in 256 4096; do job "long messages, MTU $mtu" 2 200 p2p_remapped --mca rpi_ib_mtu $mtu; done
for srq in 0 1; do
    job "long messages, 1 envelope, rpi_ib_srq $srq" 2 200 p2p_remapped --mca rpi_ib_num_envelopes 1 --mca rpi_ib_srq $srq
done
(sleep 6; ip link set dummy0 down; sleep 2; ip link set dummy0 up) &
job "long messages, the port down for 2 seconds" 2 200 p2p_remapped
wait
for ranks in 2 4; do job "windows, $ranks ranks" $ranks 200 win_far; done
job "windows, 1 envelope" 2 200 win_far --mca rpi_ib_num_envelopes 1
(sleep 12; ip link set dummy0 down; sleep 2; ip link set dummy0 up) &
job "windows, the port down for 2 seconds" 2 200 win_far
wait
CHECK_RDMA=0 job "windows by messages, rpi_ib_rma 0" 2 200 win_far --mca rpi_ib_rma 0
unset CHECK_RDMA
(sleep 8; ip link set dummy0 down; sleep 20; ip link set dummy0 up) &
job "the port down for longer than rpi_ib_timeout" 2 100 ib_down --mca rpi_ib_timeout 3 --mca mpi_ft_enable 1
wait
grep -q "nothing goes to process .* has failed: .*vendor error" /run/output ||
    { failures=$((failures + 1)); echo "FAIL  peer, operation and vendor error are not named" >>"$OUT/report"; }
# Envelopes can be locked, the longer messages cannot, and go in envelopes. Root may lock anything, unless it gives up that right.
ulimit -l 1024
BEFORE="setpriv --bounding-set=-ipc_lock" job "long messages, ulimit -l 1024" 2 200 p2p_remapped
grep -q "ulimit -l" /run/output || { failures=$((failures + 1)); echo "FAIL  nothing was said of ulimit -l" >>"$OUT/report"; }
ulimit -l unlimited
for program in $TESTS; do job "$program" 2 60 "$program"; done
exit $failures
