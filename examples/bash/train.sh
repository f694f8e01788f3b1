#!/usr/bin/env bash
# Counts to 60 and survives preemption: what a script in any language has to do, in bash.
set -u
steps=60 pause=${1:-0.1}
mkdir -p "$HPC_ELASTIC_CHECKPOINT_DIR"
saved=$HPC_ELASTIC_CHECKPOINT_DIR/next-$RANK # each rank has its own

# The signal only says "look": Slurm may send it before the agent has written the notice.
trap : TERM

step=0
[ -e "$saved" ] && step=$(<"$saved")
while [ "$step" -lt "$steps" ]; do
  echo "step $step on rank $RANK of $WORLD_SIZE"
  sleep "$pause"
  step=$((step + 1))
  if [ -e "$HPC_ELASTIC_NOTICE_FILE" ]; then # {"reason": ..., "seconds_left": ..., "deadline": ..., "round": ...}
    echo "notice: $(<"$HPC_ELASTIC_NOTICE_FILE")"
    echo "$step" >"$saved.new" && mv "$saved.new" "$saved"
    exit 0 # after a notice: saved, so this rank is started again
  fi
done
echo "done after $step steps"
exit 0 # without one: done
