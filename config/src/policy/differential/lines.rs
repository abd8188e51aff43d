//! Generates lines of everything that shells parse differently.

use subagent_testkit::Random;

use super::pieces::PIECES;
use super::starters::STARTERS;

/// Allowed lines; mutation replaces or adds a word.
const ALLOWED: &[&str] = &[
    "ok x | no && echo \"$x\" > f 2>&1",
    "x=$(printf 'path[\\044(b\\141d)]') ; ok 1",
    "x=$(printf 'path[\\044(b\\141d)]') ; printf '%s %d' a 1",
    "x=$(printf 'path[\\044(b\\141d)]') ; [ \"$x\" -gt 1 ] && exit 1",
    "x=$(printf 'path[\\044(b\\141d)]') ; [[ -n \"$x\" ]] || no",
    "x=$(printf 'path[\\044(b\\141d)]') ; export y=\"$x\" ; set -x ; ok",
    "echo '$(b''ad)' >f ; read -r x <f ; ok \"$x\" ${x:0:1}",
    "for i in a b ; do ok $i ; break 1 ; done",
    "if ok ; then echo a ; else exit 1 ; fi",
    "( ok ; no ) || { ok ; }",
    "ok &> f ; echo a &>>f && no",
    "cat <<E | xargs ok\na $x\nE\n",
    "timeout 5 env ok x ; nohup ok >f & wait $!",
    "echo a # b c\nok",
    "printf 'b%s' ad | ok | prlimit ok x",
    "prlimit sh -c 'ok x' ; setarch x86_64 ok x",
    "ok bad ; ok x\nok ad a! \"b != c\"",
    "ok ad\nok bad & x=$!; ok $x",
];

pub(super) fn line(random: &mut Random) -> String {
    if random.below(2) == 0 {
        return mutated(random);
    }
    let mut line = String::new();
    let count = 1 + random.below(7);
    // Random pieces rarely form an allowed line; these beginnings raise the share.
    if random.below(2) == 0 {
        line.push_str(random.pick::<&str>(&["ok ", "echo ", "x=1; ", "ok && ", "no || "]));
    }
    for _ in 0..count {
        line.push_str(random.pick::<&str>(PIECES));
        if random.below(4) > 0 {
            line.push(' ');
        }
    }
    line
}

/// Mutates an allowed line: replaces or adds words.
fn mutated(random: &mut Random) -> String {
    let line = if random.below(3) == 0 { random.pick(STARTERS).line } else { *random.pick(ALLOWED) };
    let mut words: Vec<&str> = line.split(' ').collect();
    for _ in 0..1 + random.below(2) {
        let places: Vec<usize> = (0..words.len()).collect();
        let at = *random.pick(&places);
        let piece = *random.pick::<&str>(PIECES);
        match random.below(3) {
            0 => words.insert(at, piece),
            _ => words[at] = piece,
        }
    }
    words.join(" ")
}
