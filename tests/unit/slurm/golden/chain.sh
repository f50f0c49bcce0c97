#!/bin/bash
# emberward slurm submit tr11.py
#SBATCH --job-name=tr11
#SBATCH --chdir=/data/tr11
#SBATCH --output=/data/tr11/runs/tr11/slurm/%x-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --nodes=48
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=8
#SBATCH --partition=gpu_p5
#SBATCH --time=20:00:00
#SBATCH --signal=TERM@600
#SBATCH --requeue
#SBATCH --array=1-10%1
#SBATCH --dependency=afterany:1528763
#SBATCH --exclude=jean-zay-iam17,jean-zay-iam35
#SBATCH --account=six@a100
#SBATCH --hint=nomultithread

# Says that this job began, and leaves out nodes that went down under the job before it.
python -m emberward slurm pulse tr11 --runs /data/tr11/runs --once

# Starts one supervisor on each node with srun. SLURM's signal reaches these, and they ask the ranks to save.
emberward train tr11.py steps=9 --launcher slurm --runs /data/tr11/runs
code=$?

# Asks SLURM again for a while when its controller does not answer, as when it is just started again.
ask() {
    for try in 1 2 3 4 5 6 7 8 9 10; do "$@" && return; sleep 15; done
}
case $code in
    75) # All ranks saved after SIGTERM: at the time limit, or to make room for another job.
        ask scontrol requeue $SLURM_JOB_ID ;;
    0|2) # Done or stopped by the kill switch; 2: a mistake that each further job would meet again.
        ask scancel --state=PENDING $SLURM_ARRAY_JOB_ID ;;
esac
exit $code
