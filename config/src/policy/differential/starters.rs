//! Programs that start others, as markers: each records that it ran, and starts from its arguments what the
//! real program would start. No machine has all of them, and some would ask for a password or a host.

/// A program that starts another one.
pub(super) struct StarterMarker {
    pub(super) name: &'static str,
    /// An allowed line with it.
    pub(super) line: &'static str,
    /// A shell pattern of the options whose value is the next word; empty if `body` reads all options.
    valued: &'static str,
    /// What it does after its options.
    body: &'static str,
}

/// Starts the words as a program with its arguments.
const WORDS: &str = r#"exec "$@""#;
/// Passes the words to a shell as one line.
const LINE: &str = r#"exec sh -c "$*""#;
/// Passes the value of `-c` to a shell.
const OF_C: &str = r#"for word; do
    [ "$found" ] && exec sh -c "$word"
    case $word in --command=*) exec sh -c "${word#*=}";; --command|-*c) found=1;; esac
done"#;

const fn starter(
    name: &'static str,
    line: &'static str,
    valued: &'static str,
    body: &'static str,
) -> StarterMarker {
    StarterMarker { name, line, valued, body }
}

pub(super) const STARTERS: &[StarterMarker] = &[
    starter("sudo", "sudo ok x ; sudo sh -c 'ok x'", "-u|-g|-p|-D|--user|--group", WORDS),
    starter("doas", "doas ok x || ok", "-u|-C", WORDS),
    starter("systemd-run", "systemd-run ok x && no", "-p|-u|-E|--unit|--property|--setenv", WORDS),
    starter("setsid", "setsid ok x", "--none", WORDS),
    starter("stdbuf", "stdbuf -oL ok x | no", "-i|-o|-e", WORDS),
    starter("ionice", "ionice -c2 ok x", "-c|-n|-p", WORDS),
    starter("setpriv", "setpriv ok x", "--reuid|--regid", WORDS),
    starter("fakeroot", "fakeroot ok x", "-l|-s|-i", WORDS),
    starter("numactl", "numactl ok x", "-N|-m|-C", WORDS),
    starter("strace", "strace ok x 2>f", "-e|-o|-p|-s", WORDS),
    starter("firejail", "firejail ok x", "--none", WORDS),
    starter("xvfb-run", "xvfb-run ok x", "-n|-s|-e|-f", WORDS),
    starter("time", "ok ; exec time ok x", "-f|-o", WORDS),
    starter("busybox", "busybox env ok x", "--none", WORDS),
    starter("chrt", "chrt 1 ok x", "-T|-P|-D", r#"shift; exec "$@""#),
    starter("taskset", "taskset 1 ok x", "--none", r#"shift; exec "$@""#),
    starter("chroot", "chroot y ok x", "--none", r#"shift; exec "$@""#),
    starter("perf", "perf stat ok x", "--none", r#"shift; [ "$1" = -e ] && shift 2; exec "$@""#),
    starter(
        "mise",
        "mise exec -- ok x",
        "--none",
        r#"until [ "$1" = -- ]; do shift; done; shift; exec "$@""#,
    ),
    starter("ssh", "ssh h ok x ; ssh h 'ok && no'", "-p|-i|-l|-o|-F", r#"shift; exec sh -c "$*""#),
    starter("watch", "watch ok x", "-n", LINE),
    starter(
        "flock",
        "flock f ok x ; flock f -c 'ok x'",
        "-w|-E",
        r#"shift; [ "$1" = -c ] && exec sh -c "$2"; exec "$@""#,
    ),
    starter("su", "su x -c 'ok x'", "", OF_C),
    starter("script", "script -qc 'ok x' f", "", OF_C),
    starter(
        "parallel",
        "parallel ok ::: a b </dev/null",
        "-j|--jobs",
        r#"line=
while [ $# -gt 0 ] && [ "$1" != ::: ]; do line="$line $1"; shift; done
[ $# -gt 0 ] && shift || while read -r input; do sh -c "$line $input"; done
for input; do sh -c "$line $input"; done"#,
    ),
];

impl StarterMarker {
    /// The program. It records itself in this file.
    pub(super) fn script(&self, started: &str) -> String {
        let Self { name, valued, body, .. } = self;
        let options = match *valued {
            "" => String::new(),
            valued => format!(
                "while [ $# -gt 0 ]; do\n\
                    case $1 in --) shift; break;; {valued}) shift 2;; -*|*=*) shift;; *) break;; esac\n\
                done\n"
            ),
        };
        format!("#!/bin/sh\necho {name} >>'{started}'\n{options}[ $# -gt 0 ] || exit 1\n{body}\n")
    }
}
