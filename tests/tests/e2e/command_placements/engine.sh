#!/bin/sh
# An engine of a user, behind `kind: command`. Each place is a folder of $root/places with a process; all
# processes of a place have its handle in FAKE_PLACE. Files in $root make the engine fail:
#   waiting    the reason for which new places do not start; obstructs none once removed
#   says-V     what the command V prints in place of its own output
#   fail-V     what the command V says before it fails
#   hang-V     the command V never ends
#   flood-V    the command V prints without an end
#   kept       places are not ended
#   bare       places have no runtime
#   shared     all places have one disk
set -u
root=${0%/*}
verb=$1
handle=${SUBAGENT_PLACE_HANDLE:-none}
echo "$verb $SUBAGENT_PLACE_NAME $handle" >> "$root/calls"
place=$root/places/$handle
[ -e "$root/hang-$verb" ] && { sleep 600000; exit 0; }
[ -e "$root/flood-$verb" ] && exec yes alive
[ -e "$root/fail-$verb" ] && { cat "$root/fail-$verb" >&2; exit 3; }

# Starts the process of the place, which holds no output of this one.
begin() {
    touch "$1/started"
    setsid env -i FAKE_PLACE="${1##*/}" sleep 600000 < /dev/null > "$1/log" 2>&1 &
}

# Prints the processes of the place.
inside() {
    grep -lz "^FAKE_PLACE=${1##*/}\$" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3
}

# Kills all processes of the place, its connections first: nothing there tells the daemon of its end.
end() {
    touch "$1/ending"
    for pid in $(inside "$1"); do
        # They may have ended meanwhile.
        grep -qx subagent-dial "/proc/$pid/comm" 2> /dev/null && kill -9 "$pid" 2> /dev/null
    done
    while pids=$(inside "$1") && [ -n "$pids" ]; do
        kill -9 $pids 2> /dev/null
    done
    echo "it was ended" >> "$1/log"
    touch "$1/gone"
}

case $verb in
submit)
    found=
    for one in "$root"/places/*; do
        [ -e "$one/name" ] && [ "$(cat "$one/name")" = "$2" ] && [ ! -e "$one/gone" ] && found=$one
    done
    if [ -z "$found" ]; then
        count=$(ls "$root/places" | wc -l)
        found=$root/places/${root##*/}.$count
        mkdir -p "$found/home"
        echo "$2" > "$found/name"
        [ -e "$root/waiting" ] || begin "$found"
    fi
    echo "some words before the handle"
    if [ -e "$root/says-submit" ]; then cat "$root/says-submit"; else echo "${found##*/}"; fi
    ;;
status)
    if [ -e "$root/says-status" ]; then cat "$root/says-status"; exit 0; fi
    if [ -e "$place/gone" ]; then echo "gone ended by the engine"; exit 0; fi
    [ -e "$place/started" ] || [ -e "$root/waiting" ] || begin "$place"
    if [ -e "$place/started" ]; then echo alive; else echo "waiting $(cat "$root/waiting")"; fi
    ;;
dial)
    shift
    if [ -e "$place/ending" ]; then echo "the place $handle has ended" >&2; exit 1; fi
    path=/usr/bin:/bin
    [ -e "$root/bare" ] || path=$(cat "$root/path"):$path
    home=$place/home
    [ -e "$root/shared" ] && home=$root/home
    cd "$home" || exit 1
    exec env -i HOME="$home" PATH="$path" FAKE_PLACE="$handle" TEST_SANDBOX_ID="$TEST_SANDBOX_ID" \
        OF_PLACE='of the place' "$@"
    ;;
cancel) [ -e "$root/kept" ] || end "$place" ;;
logs) cat "$place/log" ;;
esac
