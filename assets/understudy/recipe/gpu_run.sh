#!/bin/sh
# The work of one GPU run; start it in the background (setsid) and look in with short calls:
#
#   sh gpu_run.sh KEEP first   from nothing: the teacher performs, the codec learns, then the language model;
#                            the codec has the first GPU, everything else the last. With --resume KEEP/resume in
#                            CODEC_OPTIONS and LM_OPTIONS both begin with what is there
#   sh gpu_run.sh KEEP on      from KEEP/resume: the teacher performs lines that KEEP/known lacks, the language
#                            model goes on on the last GPU; teacher and encoder have the first
#   sh gpu_run.sh KEEP tune    from KEEP/resume: the decoder goes on on the first GPU, as soon as the teacher has
#                            performed its first file
#   sh gpu_run.sh KEEP both    `on` and `tune` at once; the language model ends after LM_SECONDS
#   sh gpu_run.sh KEEP look    a few lines about what is running
#
# KEEP holds plan/, kokoro/ and teacher.safetensors; to go on also resume/ (the checkpoint, ears.pt, listener.pt)
# and, for the language model, known/: codes of earlier runs, whose lines*.npz must be there at the start (the
# codes may follow).  SECONDS_LEFT is the time until everything should have ended.  Results land in KEEP/out.
KEEP=$1
HERE=$(dirname "$0")
SPEECH=${SPEECH:-/dev/shm/speech}
DEVICE=${DEVICE:-cuda}
START=$(date +%s)
END=$((START + ${SECONDS_LEFT:-1450}))
LM_END=$((START + ${LM_SECONDS:-${SECONDS_LEFT:-1450}}))
LAST=$(($(nvidia-smi -L | wc -l) - 1))
TEACHER=$LAST # the GPU that performs
ENCODER=$LAST
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=4

left() { echo $((${1:-$END} - $(date +%s))); }
on() { gpu=$1 log=$2; shift 2; CUDA_VISIBLE_DEVICES=$gpu python3 "$@" --device $DEVICE > $KEEP/$log.txt 2>&1; }
perform() { # the teacher may come later: until then the codec captures its graphs
  while [ ! -f $KEEP/teacher.safetensors ]; do sleep 0.5; done
  on $TEACHER perform $HERE/perform.py --plan $KEEP/plan --teacher $KEEP/teacher.safetensors --kokoro $KEEP --out $SPEECH "$@"
}
encode() { on $ENCODER encode $HERE/encode.py --speech $SPEECH --out $KEEP/codes "$@"; }
learn() { # files of codes to wait for, further options
  while [ $(ls $KEEP/codes/lines*.npz 2>/dev/null | wc -l) -lt $1 ]; do sleep 0.5; done
  shift
  on $LAST lm $HERE/train_lm.py --plan $KEEP/plan --codes $KEEP/codes --out $KEEP/out --seconds $(left $LM_END) --passes ${PASSES:-20} --give-up ${GIVE_UP:-300} "$@"
}
tune() { on 0 codec $HERE/train_codec.py --speech $SPEECH --out $KEEP/out --resume $KEEP/resume --train 0 --then $(($(left) - 25)) $CODEC_OPTIONS; }

case $2 in
look)
  for f in perform codec encode lm; do
    [ -f $KEEP/$f.txt ] && { echo "== $f"; grep EXAM $KEEP/$f.txt | tail -n ${3:-4}; tail -n 2 $KEEP/$f.txt | cut -c1-330; }
  done
  exit
  ;;
first)
  mkdir -p $KEEP/out
  perform --seconds ${GEN:-560} --hours ${HOURS:-150} &
  on 0 codec $HERE/train_codec.py --speech $SPEECH --out $KEEP/out --train ${CODEC:-600} --then $(($(left) - ${CODEC:-600} - 75)) $CODEC_OPTIONS &
  encode --codec $KEEP/out &
  learn ${LEAST:-12} $LM_OPTIONS &
  ;;
on | tune | both)
  mkdir -p $KEEP/out $KEEP/known
  touch $KEEP/resume/codes_final
  [ $2 = on ] && TEACHER=0 ENCODER=0
  perform --seconds ${GEN:-400} --hours ${HOURS:-26} --skip $KEEP/known &
  [ $2 = on ] || tune &
  [ $2 = tune ] && wait && exit
  encode --codec $KEEP/resume --known $KEEP/known &
  learn ${LEAST:-6} --resume $KEEP/resume --begin 0.4 --lr ${LM_RATE:-5e-4} $LM_OPTIONS &
  ;;
esac
wait
