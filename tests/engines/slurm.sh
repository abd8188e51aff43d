#!/usr/bin/env bash
# A private Slurm cluster of one node on 127.0.0.1, without Debian's services, cgroups and accounting:
#   slurm.sh configure FOLDER CONTROLLER_PORT NODE_PORT   writes key and configuration
#   slurm.sh munged|slurmctld|slurmd FOLDER               becomes that daemon, in the foreground
#   slurm.sh try                                          runs jobs on a cluster of its own, and ends it
set -euo pipefail

# More than the machine has, so that many jobs fit.
CPUS=64

configure() {
    local folder=$1 controller=$2 node=$3
    umask 077
    mkdir -p "$folder"/{state,spool,munge}
    # munged wants a socket that all users can reach.
    chmod 711 "$folder" "$folder/munge"
    head -c 128 /dev/urandom > "$folder/munge/key"
    # The node is this process's host: slurmd asks the system for its name.
    cat > "$folder/slurm.conf" <<CONF
ClusterName=private
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1,bf_interval=1,sched_interval=1
PropagateResourceLimits=NONE
MailProg=/bin/true
ReturnToService=2
SlurmdTimeout=30
KillWait=1
MinJobAge=300
InactiveLimit=0
CommunicationParameters=NoAddrCache
SlurmdParameters=config_overrides
NodeName=$(hostname) NodeAddr=127.0.0.1 Port=$node CPUs=$CPUS RealMemory=65536 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverTimeLimit=0
CONF
    echo 'CgroupPlugin=cgroup/v1' > "$folder/cgroup.conf"
}

daemon() {
    local name=$1 folder=$2
    export SLURM_CONF=$folder/slurm.conf
    case $name in
        munged) exec munged --foreground --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
            --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" \
            --num-threads=2 ;;
        slurmctld) exec slurmctld -D -L "$folder/slurmctld.log" ;;
        slurmd) exec slurmd -D -L "$folder/slurmd.log" ;;
    esac
}

try() {
    pids=()
    folder=$(mktemp -d /tmp/slurm-XXXXXX)
    trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
    configure "$folder" 17817 17818
    export SLURM_CONF=$folder/slurm.conf
    for name in munged slurmctld slurmd; do
        "$0" "$name" "$folder" & pids+=($!)
        case $name in
            munged) until munge --no-input --socket="$folder/munge/socket" > /dev/null 2>&1; do sleep 0.1; done ;;
            slurmctld) until scontrol ping > /dev/null 2>&1; do sleep 0.1; done ;;
            slurmd) until [[ $(sinfo --noheader --format=%T) == idle ]]; do sleep 0.1; done ;;
        esac
    done
    "${@:-bash}"
}

case $1 in
    configure) configure "$2" "$3" "$4" ;;
    munged|slurmctld|slurmd) daemon "$1" "$2" ;;
    try) shift; try "$@" ;;
    *) sed -n 2,5p "$0"; exit 2 ;;
esac
