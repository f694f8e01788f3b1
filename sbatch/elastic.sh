#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR2@60
#SBATCH --no-kill
#
# Trains a script on all nodes of a job, saves when Slurm takes them away, and comes back:
#
#     sbatch -N 4 elastic.sh train.py --epochs 90
#     sbatch -N 2-8 elastic.sh --nnodes 2:8 --nproc-per-node 4 train.py
#
# Sbatch options stand before the name of this file, options of `hpc-elastic run` behind it.
# The lines at the top, all of which can be changed on sbatch's command line:
#   --requeue            the job may be started again under its own id
#   --open-mode=append   a new start must not erase the output of the ones before it
#   --signal=USR2@60     notice to the agents a minute before the time limit (never B:TERM: it loses the save)
#   --no-kill            the loss of one node must not end the job: the other agents go on
# Not --ntasks-per-node=1: with it Slurm gives `-N 2-8` two nodes, however many are free (22.05.8).
# Not set here, because the site's own default is as good: name, output, partition, time.
#
# Environment:
#   HPC_ELASTIC_PYTHON         the Python that has the package (default: the python3 in PATH)
#   HPC_ELASTIC_LAUNCH_PREFIX  words in front of it on every node, such as `apptainer exec image.sif`
#   HPC_ELASTIC_HOME           where the run directories are (default: hpc_elastic_runs/ where you submit)
#
# Without Slurm (`bash elastic.sh train.py`) it trains on this machine alone.
#
# Slurm runs a copy of this file from its spool, so it must not look for anything beside itself.
# No `set -e`: `wait` fails when a signal interrupts it, and that must not end the script.
set -u

say() { printf 'hpc-elastic: %s\n' "$*"; }
refuse() {
    printf 'hpc-elastic: %s\n' "$*" >&2
    exit 64
}

# Traps before anything slow: without one the first signal ends this shell, and Slurm then kills the agents.
srun_pid=
job=${SLURM_JOB_ID-}
# shellcheck disable=SC2317 # the trap below calls it
tell_agents() {
    # The agents have ears of their own; this is for a notice that only the shell got (--signal=B:USR2).
    # Plain `scancel --signal` means the steps only. Never TERM to srun: it kills its tasks at once.
    say 'the batch shell got a notice and passes it on to the agents'
    if [[ -n $srun_pid ]]; then
        { timeout 20 scancel --signal=USR2 "$job" 2>/dev/null || kill -USR2 "$srun_pid"; } &
    fi
}
trap tell_agents USR1 USR2
# shellcheck disable=SC2317 # the trap below calls it
hear_term() {
    # Mostly the agents had it too. With --signal=B:TERM only this shell has, so they get a notice; through
    # srun, which asks no controller.
    say 'batch shell got TERM; waiting for the agents'
    if [[ -n $srun_pid ]]; then kill -USR2 "$srun_pid" 2>/dev/null; fi
}
trap hear_term TERM
trap 'say "batch shell got INT; waiting for the agents"' INT
trap 'say "batch shell got HUP; waiting for the agents"' HUP

# --- setup ---

if (($# == 0)); then
    refuse 'no script given; usage: sbatch [sbatch options] elastic.sh [run options] SCRIPT [ARGS]'
fi
python=${HPC_ELASTIC_PYTHON:-python3}
read -r -a prefix <<<"${HPC_ELASTIC_LAUNCH_PREFIX-}"
if ((${#prefix[@]} == 0)); then
    given=$python
    python=$(type -P "$given") ||
        refuse "no Python named $given in PATH; activate the environment that has hpc_elastic, or set HPC_ELASTIC_PYTHON"
fi
command=("${prefix[@]+"${prefix[@]}"}" "$python" -m hpc_elastic)

if [[ -z $job ]]; then
    exec "${command[@]}" run --standalone "$@"
fi

# A signal that leaves no time to save. One from sbatch's command line cannot be seen from here.
for asked in ${SBATCH_SIGNAL:-$(sed -n 's/^#SBATCH.*--signal[= ]*\([^ ]*\).*/\1/p' "$0" 2>/dev/null)}; do
    case ${asked%%@*} in
        *KILL | *STOP | 9 | B:9) refuse "--signal=$asked ends the job without a save; use --signal=USR2@60" ;;
        B:TERM | B:SIGTERM | B:15)
            refuse "--signal=$asked goes to the batch shell alone and looks like a cancel; use --signal=B:USR2@60"
            ;;
    esac
done

per_node=${SLURM_NTASKS_PER_NODE:-1}
if [[ $per_node != 1 ]]; then
    refuse "--ntasks-per-node=$per_node: one agent per node starts all its workers;" \
        "submit with --ntasks-per-node=1 and give the number of workers by --nproc-per-node"
fi
if ((${SLURM_NTASKS:-0} > ${SLURM_JOB_NUM_NODES:-1})); then
    say "$SLURM_NTASKS tasks are no workers: one agent on each node starts as many as --nproc-per-node says"
fi
step=${SLURM_STEP_ID:-0} # of the batch script none, 4294967291, or since 26.05 -5
if ((${SLURM_STEP_NUM_TASKS:-1} > 1 && step >= 0 && step < 4000000000)); then
    refuse "$SLURM_STEP_NUM_TASKS copies of this script in one step; start it with sbatch, not with srun"
fi

# A job submitted from within a job inherits variables that belong to the other one. What Slurm itself
# says of this job decides; where it does not answer, the environment has to do.
unset "${!SLURM_CPU_BIND@}" "${!SLURM_MEM_BIND@}" "${!SLURM_STEP@}"
record=$(timeout 10 scontrol show job -o "$job" 2>/dev/null | grep "^JobId=$job ")
if [[ -n $record && $record != *' ArrayTaskId='* ]]; then
    unset "${!SLURM_ARRAY_@}"
fi
# How long a preempted job may go on, for agents in a container that cannot ask.
unset HPC_ELASTIC_GRACE_S
if [[ -n ${SLURM_JOB_PARTITION-} ]]; then
    partition=$(timeout 10 scontrol show partition -o "$SLURM_JOB_PARTITION" 2>/dev/null)
    if [[ $partition =~ ' GraceTime='([0-9]+)' ' ]]; then export HPC_ELASTIC_GRACE_S=${BASH_REMATCH[1]}; fi
fi
# When the time limit comes, for the elements of a pool, which hand over one by one before it.
unset HPC_ELASTIC_TIME_LIMIT
if [[ $record =~ ' RunTime='([^ ]+)' TimeLimit='([^ ]+)' ' ]]; then
    printf -v HPC_ELASTIC_TIME_LIMIT '%(%s)T %s %s' -1 "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}"
    export HPC_ELASTIC_TIME_LIMIT
fi
if [[ $record == *' Restarts=0 '* ]]; then
    unset SLURM_RESTART_COUNT
fi
if [[ $record == *' Requeue=0 '* ]]; then
    say "the job has Requeue=0, by --no-requeue or the site: it will be set to 1 when the job has to come back"
fi
if [[ -n ${SLURM_ARRAY_TASK_ID-} ]]; then
    job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID} # the plain id of one element is that of the whole array
fi

# The bad command line of one job is one message, not one per node.
"${command[@]}" requeue --check -- "$@"
checked=$?
case $checked in
    0) ;;
    64) exit 64 ;;
    129 | 13? | 14? | 15? | 16?) ;; # by a signal: below
    *)
        say "\`${command[*]}\` does not work (status $checked); install hpc_elastic in that Python, or set HPC_ELASTIC_PYTHON"
        exit "$checked"
        ;;
esac

# Since 22.05 srun does not take --cpus-per-task over from sbatch, and 23.11 refuses two variables that
# differ: so it is an option here, and the variables are taken away. Without a request: the node's share.
cpus=${SLURM_CPUS_PER_TASK-}
if [[ -z $cpus && -z ${SLURM_HINT-}${SLURM_THREADS_PER_CORE-} ]]; then
    for count in ${SLURM_JOB_CPUS_PER_NODE//,/ }; do
        count=${count%%(*}
        if [[ -z $cpus ]] || ((count < cpus)); then cpus=$count; fi
    done
fi
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK

nodes=${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}
printf -v now '%(%Y-%m-%dT%H:%M:%S%z)T' -1
say "job $job (${SLURM_JOB_NAME-}), start ${SLURM_RESTART_COUNT:-0}, $nodes node(s) ${SLURM_JOB_NODELIST-}, $now"

# The requeue makes Slurm signal this job; what asks for it must not die of that. In a container there may
# be no scontrol: then the hook decides by the record it is handed, and this shell does the asking.
leave_with() {
    local step_status=$1 said status try
    shift
    if ((${#prefix[@]} > 0)); then
        record=$(timeout 10 scontrol show job -o "$SLURM_JOB_ID" 2>/dev/null)
        # Of a pool that too few came to also its other elements; a variable holds 128 KB at most.
        if ((step_status == 85)) && [[ -n ${SLURM_ARRAY_JOB_ID-} ]]; then
            record+=$'\n'$(timeout 10 scontrol show job -o "$SLURM_ARRAY_JOB_ID" 2>/dev/null | cut -c-600 | head -c 90000)
        fi
        export HPC_ELASTIC_JOB_RECORD=$record
    fi
    for try in 1 2 3; do
        said=$(
            trap '' USR1 USR2 TERM INT HUP
            exec "${command[@]}" requeue --step-status "$step_status" -- "$@"
        )
        status=$?
        # It never ends without a word: then it was killed, by the kernel for want of memory perhaps.
        if [[ -n $said ]] || ((status <= 128)); then break; fi
        say "what asks Slurm for the requeue was killed (status $status, try $try)"
    done
    printf '%s\n' "$said"
    if [[ $said == *'the batch shell asks Slurm'* ]]; then
        ask_slurm || go_on "$said" "$@"
    elif [[ $said == *'the batch shell submits what is in '* ]]; then
        go_on "$said" "$@"
    fi
    exit "$status"
}
# Fails where Slurm refuses. Out of reach is no refusal: it may have heard, and a second job would be one too many.
ask_slurm() {
    local pause heard status
    trap '' USR1 USR2 TERM INT HUP
    if [[ $record == *"JobId=$SLURM_JOB_ID "*' Requeue=0 '* ]]; then
        timeout 10 scontrol update JobId="$job" Requeue=1
    fi
    # While the controller is out of reach: it is restarted now and then, and that takes a minute.
    for pause in 0 1 2 4 8 15 15 15 15 15 15; do
        sleep "$pause"
        heard=$(timeout 10 scontrol requeue Incomplete "$job" 2>&1)
        status=$?
        if ((status == 0)); then
            say "asked Slurm to requeue job $job"
            return 0
        fi
        printf '%s\n' "$heard"
        if ((status != 124)) && [[ ! ${heard,,} =~ contact|timed\ out|unexpected\ message ]]; then return 1; fi
    done
    say "job $job does not come back, Slurm is out of reach; to go on, submit the same again with the same --run-dir"
}
# What goes on in the place of a job that cannot: the hook has written sbatch's words, with `--` for the script.
go_on() {
    local said=$1 file=/dev/null place word words=() number='sbatch was not tried' status=1
    shift
    if [[ $said == *'submits what is in '* ]]; then
        file=${said##*submits what is in }
        file=${file%% (status*}
    fi
    while IFS= read -r -d '' word; do words+=("$word"); done <"$file"
    for place in "${!words[@]}"; do
        if [[ ${words[place]} == -- ]]; then
            words[place]=$0
            number=$(timeout 30 sbatch --parsable "${words[@]}" 2>&1)
            status=$?
            break
        fi
    done
    number=${number%%;*}
    if ((status == 0)); then
        say "continuation job $number goes on with the run"
        if "${command[@]}" requeue --continued-by "$number" -- "$@"; then return; fi
        say "the run was cancelled meanwhile, and continuation job $number too"
        timeout 20 scancel "$number"
        return
    fi
    say "job $job does not come back ($number); to go on, submit the same again with the same --run-dir"
    "${command[@]}" requeue --stays-away "Slurm refused the requeue and a continuation job: $number" -- "$@"
}

# A preemption that began before there were agents told nobody: Slurm signals steps only.
if [[ $record == *' PreemptTime='[0-9]* ]]; then
    say 'the job is being preempted already; no agent is started'
    leave_with 80 "$@"
fi

# Or it ended the check, as a cancel would, and the loss of this node: what of it, the job's record says.
if ((checked > 128)); then
    say "a signal ended the check of the command line (status $checked); no agent is started"
    leave_with "$checked" "$@"
fi

# What Slurm may send must not end an agent that is still loading, nor be lost: it stays pending until the
# agent listens. An older `env` cannot do that; then at least the notice signals are ignored until then.
if env --block-signal=TERM true 2>/dev/null; then
    agent=(env --block-signal=TERM --block-signal=USR1 --block-signal=USR2)
else
    agent=(bash -c 'trap "" USR1 USR2; exec "$@"' agent)
fi
# --no-kill, --kill-on-bad-exit=0, --wait=0: neither a lost node nor an agent that leaves, early or with a
#   status, ends the others or starts a clock for them, whatever the site has set
# --export=ALL: sbatch's --export=NONE would be taken over, and the agents get what this shell has
# --mpi=none: the agents are no MPI program, and the site's default may be one that is not installed
# --input=none: nobody types; --open-mode=append: a step of a new start must not erase the output either
srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 ${cpus:+--cpus-per-task="$cpus"} \
    --no-kill --kill-on-bad-exit=0 --wait=0 --export=ALL --mpi=none --input=none --open-mode=append \
    "${agent[@]}" "${command[@]}" run "$@" &
srun_pid=$!

# srun waits for the task of a lost node until Slurm takes the node for dead, and for ever where the node
# came back before that. The record tells earlier when no agent is left; it is read beside this shell, as
# long as this shell holds the leash. The same process gives notice before the time limit, also where --signal
# is off or its lead too short for the save. TERM makes srun kill what is left of its step;
# `scancel --signal=KILL` would cancel the whole job.
exec {leash}> >(
    trap '' USR1 USR2 TERM INT HUP
    HPC_ELASTIC_JOB_RECORD=$record "${command[@]}" requeue --watch -- "$@" || exit
    say 'all agents that live have left and srun still waits for one that is lost; its step is ended'
    kill -TERM "$srun_pid" 2>/dev/null
    for pause in 1 1 1 1 1; do
        if ! kill -0 "$srun_pid" 2>/dev/null; then exit; fi
        sleep "$pause"
    done
    kill -KILL "$srun_pid" 2>/dev/null
)

# A trapped signal ends `wait`, not srun.
status=0
while kill -0 "$srun_pid" 2>/dev/null; do
    wait "$srun_pid"
    status=$?
done
wait "$srun_pid" 2>/dev/null
last=$?
if ((last != 127)); then status=$last; fi # 127: the status was taken in the loop
srun_pid=
exec {leash}>&-

leave_with "$status" "$@"
