# The worker of tests/chaos.py without Python:
#   sh chaos_worker.sh FOLDER SECONDS RESTARTS_THAT_FAIL CODE RANK DEAF MARKER
[ "$6" = deaf ] && trap '' TERM
: > "$1/pid.$$"
sleep 301 &
echo "rank $RANK of $WORLD_SIZE, restart $TORCHELASTIC_RESTART_COUNT"
echo "and to stderr" >&2
sleep "$2"
case ",$3," in
  *,$TORCHELASTIC_RESTART_COUNT,*) [ "$RANK" = "$5" ] && exit "$4" ;;
esac
exit 0
