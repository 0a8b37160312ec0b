#!/bin/sh
# Messages and collectives with buffers on a real NVIDIA device: the program of the tests (tests/c/jobs/accelerator.c), which opens the driver
# itself, so no CUDA toolkit is needed. It runs in a clone of this repository after the two commands of README.md, with what they have built:
#
#     tests/gpu.sh [PREFIX]
#
# PREFIX is an installation; without it target/oxmpi, or what OXMPI_TEST_PREFIX names. It ends with 0 if all is well, with 77 and the reason
# if there is no device, with 1 else. Ranks share the device if there are more of them.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:-${OXMPI_TEST_PREFIX:-$here/target/oxmpi}}

skip() { echo "skipped: $1"; exit 77; }

[ -x "$prefix/bin/mpicc" ] || skip "there is no installation in $prefix: run 'cargo xtask demo' first, or name one"
[ -n "${OXMPI_TEST_CUDA:-}" ] || [ -e /dev/nvidiactl ] || [ -e /dev/nvmap ] || [ -e /dev/dxg ] \
    || skip "the kernel of this machine has no driver of NVIDIA's (/dev/nvidiactl)"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$prefix/bin/mpicc" -O1 -g -Wall "$here/tests/c/jobs/accelerator.c" -o "$work/accelerator" -lm -lpthread -ldl || exit 1
cd "$work" || exit 1

driver=${OXMPI_TEST_CUDA:-libcuda.so.1}
failed=0
# check NAME RANKS MODE OPTIONS...
check() {
    name=$1 ranks=$2 mode=$3
    shift 3
    out=$(timeout 170 "$prefix/bin/mpirun" -n "$ranks" --timeout 160 --mca accelerator_cuda_library "$driver" "$@" \
        -x CHECK_SECONDS=150 ./accelerator "$mode" gpu 2>&1 </dev/null)
    case $out in
        ok) echo "ok       $name" ;;
        skipped:*) skip "${out#skipped: }" ;;
        *) echo "FAILED   $name"; echo "$out"; failed=1 ;;
    esac
}

command -v nvidia-smi >/dev/null && nvidia-smi -L
"$prefix/bin/oxmpi" doctor 2>/dev/null | grep -i '  *accelerator '
check "2 ranks, shared memory" 2 all
check "2 ranks, sockets" 2 all --mca rpi tcp
check "4 ranks, shared memory" 4 all
check "2 ranks, driver loaded by MPI_Init" 2 all --mca accelerator cuda
check "2 ranks with threads" 2 threads
check "accelerator null is an error" 2 null --mca accelerator null
check "without the collective component" 2 unasked --mca coll ^accelerator
exit $failed
