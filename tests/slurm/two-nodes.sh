#!/bin/bash
# two-nodes.sh COMMAND [ARGUMENT...]
#
# Makes a Slurm cluster of two nodes, nodea and nodeb, on this machine, runs the command on nodea,
# and ends with the code of the command. The cluster ends with the command, or when this script is
# killed: it consists of processes in a PID namespace, and of files in a file system of its mount
# namespace. Two clusters do not disturb each other. Needs root, and Debian's packages munge,
# slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and iproute2.
#
# Each node has namespaces of its own: network (10.77.0.1 and 10.77.0.2), hostname, mounts,
# processes, System V IPC, and a /dev/shm and a munged of its own. All other files are common.
#
# TWO_NODES_CONF   further lines of slurm.conf, such as MpiParams=ports=12000-12999
# TWO_NODES_MUNGE  what munged is called with in addition
#
# tests/slurm/two-nodes.sh bash                         a shell on the cluster
# tests/slurm/two-nodes.sh srun -N2 --mpi=pmi2 hostname
set -eu
files=/run/two-nodes
PATH=$PATH:/usr/sbin:/sbin

write_configuration() {
    mkdir -p $files/{a,b,state,log,{spool,tmp}_node{a,b}}
    chmod 700 $files/state
    printf '127.0.0.1 localhost\n10.77.0.1 nodea\n10.77.0.2 nodeb\n' >$files/hosts
    (umask 077 && head -c 1024 /dev/urandom >$files/munge.key)
    cat >$files/slurm.conf <<CONF
ClusterName=two
SlurmctldHost=nodea(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$files/state
SlurmdSpoolDir=$files/spool_%n
SlurmctldPidFile=$files/slurmctld.pid
SlurmdPidFile=$files/slurmd_%n.pid
TmpFS=$files/tmp_%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName=nodea NodeAddr=10.77.0.1 CPUs=2 RealMemory=2000
NodeName=nodeb NodeAddr=10.77.0.2 CPUs=2 RealMemory=2000
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
${TWO_NODES_CONF:-}
CONF
    # Newer versions of Slurm want cgroups unless this file says otherwise; older ones refuse it.
    local version
    version=$(slurmd -V)
    version=${version#* }
    [ "${version%%.*}" -lt 23 ] || echo CgroupPlugin=disabled >$files/cgroup.conf
}

# Waits for 20 seconds at most: the machine can be busy with other tests.
until_true() {
    local _
    for _ in $(seq 400); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.05
    done
    echo "two-nodes.sh: '$*' does not succeed within 20 s" >&2
    tail -n 20 $files/log/* >&2
    return 1
}

# The daemons of a node, and an environment for commands of Slurm.
start_node() {
    hostname "node$1"
    ip link set lo up
    ip addr add "10.77.0.$2/24" dev "node$1"
    ip link set "node$1" up
    mount -t tmpfs shm /dev/shm
    mount --bind $files/hosts /etc/hosts
    mount --bind $files/"$1" /run/munge
    # shellcheck disable=SC2086 # the variable has several words
    munged --force --foreground --key-file=$files/munge.key --log-file=$files/log/munged_"$1" \
        --seed-file=$files/"$1"/seed --pid-file=$files/"$1"/pid ${TWO_NODES_MUNGE:-} \
        >>$files/log/output_"$1" 2>&1 </dev/null &
    until_true munge -n
    export SLURM_CONF=$files/slurm.conf
    [ "$1" = b ] || slurmctld -D -L $files/log/slurmctld >>$files/log/output_a 2>&1 </dev/null &
    slurmd -D -N "node$1" -L $files/log/slurmd_"$1" >>$files/log/output_"$1" 2>&1 </dev/null &
}

is_apart() {
    [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

both_idle() {
    [ "$(sinfo -h -N -o %t | sort -u)" = idle ]
}

# Runs the rest of this script in new namespaces, which end with this process however it ends:
# unshare(1) itself does not end by SIGTERM.
unshared() {
    exec setpriv --pdeathsig KILL unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc "$@"
}

case ${1:-} in
"" | -h | --help)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    ;;
--cluster)
    shift
    mount -t tmpfs -o mode=755 run /run
    mkdir -p /run/munge
    write_configuration
    unshared --net "$0" --node-b </dev/null &
    until_true is_apart $!
    ip link add nodea type veth peer name nodeb netns $!
    (unshared "$0" --node-a "$@")
    ;;
--node-b)
    until_true ip link show nodeb
    start_node b 2
    wait
    ;;
--node-a)
    shift
    start_node a 1
    until_true both_idle
    "$@"
    ;;
*)
    (unshared --net "$0" --cluster "$@")
    ;;
esac
