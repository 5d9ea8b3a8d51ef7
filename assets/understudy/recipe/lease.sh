#!/bin/sh
# Work of one lease of a GPU machine; start it in the background (setsid) and look in with short calls:
#
#   sh lease.sh KEEP first   from nothing: the teacher performs, the codec learns, then the language model;
#                            the codec has the first GPU, everything else the last
#   sh lease.sh KEEP on      from KEEP/resume: the teacher performs lines that KEEP/codes lacks, the language
#                            model goes on on the first GPU
#   sh lease.sh KEEP tune    from KEEP/resume: the decoder goes on on the first GPU, as soon as the teacher has
#                            performed its first file
#   sh lease.sh KEEP look    a few lines about what is running
#
# KEEP holds plan/, kokoro/ and teacher.safetensors; for `on` also resume/ (the checkpoint and, to go on with,
# ears.pt, listener.pt) and, if at hand, codes/ of an earlier lease.  SECONDS_LEFT is the time until everything
# should have ended.  Results land in KEEP/out.
KEEP=$1
HERE=$(dirname "$0")
SPEECH=${SPEECH:-/dev/shm/speech}
END=$(($(date +%s) + ${SECONDS_LEFT:-1450}))
LAST=$(($(nvidia-smi -L | wc -l) - 1))
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=4

left() { echo $((END - $(date +%s))); }
on() { gpu=$1 log=$2; shift 2; CUDA_VISIBLE_DEVICES=$gpu python3 "$@" > $KEEP/$log.txt 2>&1; }
perform() { on $LAST perform $HERE/perform.py --plan $KEEP/plan --teacher $KEEP/teacher.safetensors --kokoro $KEEP --out $SPEECH "$@"; }
learn() { # GPU, files of codes to wait for, further options
  where=$1
  while [ $(ls $KEEP/codes/lines*.npz 2>/dev/null | wc -l) -lt $2 ]; do sleep 0.5; done
  shift 2
  on $where lm $HERE/train_lm.py --plan $KEEP/plan --codes $KEEP/codes --out $KEEP/out --seconds $(left) --passes ${PASSES:-20} --give-up ${GIVE_UP:-300} "$@"
}

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
  on $LAST encode $HERE/encode.py --speech $SPEECH --codec $KEEP/out --out $KEEP/codes &
  learn $LAST ${LEAST:-12} $LM_OPTIONS &
  ;;
on)
  mkdir -p $KEEP/out
  touch $KEEP/resume/codes_final
  perform --seconds ${GEN:-560} --hours ${HOURS:-150} --skip $KEEP/codes &
  on $LAST encode $HERE/encode.py --speech $SPEECH --codec $KEEP/resume --out $KEEP/codes --prefix more &
  [ -f $KEEP/resume/config.json ] && HOW="--resume $KEEP/resume --begin 0.4"
  learn 0 ${LEAST:-6} $HOW $LM_OPTIONS &
  ;;
tune)
  mkdir -p $KEEP/out
  perform --seconds ${GEN:-400} --hours ${HOURS:-26} &
  on 0 codec $HERE/train_codec.py --speech $SPEECH --out $KEEP/out --resume $KEEP/resume --train 0 --then $(($(left) - 45)) $CODEC_OPTIONS &
  ;;
esac
wait
