//! Tests of accepted and rejected lines.

use super::*;

/// Returns the words of all commands, one string per command.
fn commands(text: &str) -> Vec<String> {
    let script = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    script
        .commands
        .iter()
        .filter(|found| !found.words.is_empty())
        .map(|found| ShellText::joined(&found.words).shown)
        .collect()
}

#[test]
fn what_all_shells_read_alike_is_read() {
    let table: &[(&str, &[&str])] = &[
        ("git 'pu'sh \"-f\"", &["git push -f"]),
        (r"git\ x pu\-sh", &["git x pu-sh"]),
        ("echo a! \"b != c\" '!d'; kill $!; z", &["echo a! b != c !d", "kill $!", "z"]),
        ("a; b && c || d & e | f", &["a", "b", "c", "d", "e", "f"]),
        ("a\n\nb\n", &["a", "b"]),
        ("a \\\n  b", &["a b"]),
        ("! a | b", &["a", "b"]),
        ("(a; b) && { c; d; }", &["a", "b", "c", "d"]),
        ("{ a; } | cat", &["a", "cat"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("if a\nthen\n b\nfi; c", &["a", "b", "c"]),
        ("for f in src/*.rs; do head -5 \"$f\"; done", &["head -5 $f"]),
        ("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]),
        ("echo $(git push) `id`", &["git push", "id", "echo $(…) $(…)"]),
        ("echo \"x $(git push) y\"", &["git push", "echo x $(…) y"]),
        ("git commit -m \"$(cat <<'E'\nit's (done)\nE\n)\"", &["cat", "git commit -m $(…)"]),
        ("cat <<E\n$x ${y}z $ 1\nE", &["cat"]),
        ("cat <<-E >x\n\tplain\n\tE\nls", &["cat", "ls"]),
        ("a <<< 'b'", &["a"]),
        ("a > x 2>&1 < y 2>/dev/null >&2", &["a"]),
        ("X=1 Y= a", &["a"]),
        ("a &> x && b &>>/dev/null; c", &["a", "b", "c"]),
        (
            "x=$(a); b ${x:-y z} ${#x} ${x%.*} ${x:0:3} $? $1",
            &["a", "b ${x:-y z} ${#x} ${x%.*} ${x:0:3} $? $1"],
        ),
        ("find . -name '*.rs' -exec grep x {} +", &["find . -name *.rs -exec grep x {} +"]),
        ("git diff HEAD@{1} HEAD~2 HEAD^", &["git diff HEAD@{1} HEAD~2 HEAD^"]),
        ("mkdir -p src/{a,b}", &["mkdir -p src/{a,b}"]),
        ("[ ! -f x ] && [[ -n \"$y\" ]]", &["[ ! -f x ]", "[[ -n $y ]]"]),
        ("[ \"$x\" = a ] && [[ $x == b ]]", &["[ $x = a ]", "[[ $x == b ]]"]),
        ("ls # all of it\n# and more\nid", &["ls", "id"]),
        ("grep -E 'a|b$' \"c$\" x$", &["grep -E a|b$ c$ x$"]),
        ("echo ä | grep ö", &["echo ä", "grep ö"]),
        ("ls ~ ~/x a~", &["ls ~ ~/x a~"]),
        ("\"if\" x", &["if x"]),
    ];
    for (text, expected) in table {
        assert_eq!(commands(text), *expected, "{text}");
    }
}

#[test]
fn what_a_shell_reads_otherwise_is_refused() {
    for text in [
        "",
        "   ",
        "# x",
        "echo `echo \\`rm x\\``",
        "echo ${ rm x; }",
        "echo ${| rm x; }",
        "echo a &>/dev/null rm x",
        "a &>f >g",
        "a &>1",
        "a &>-",
        "a &>p",
        "a &>!f",
        "a &>>|f",
        "a &>$x",
        "{ a; } &>f",
        "&>f",
        "echo $'\\'; rm x; #'",
        "=rm x",
        "echo \"$\\\n(a)\"",
        "echo \"$x\\\n[1]\"",
        "i\\\nf a; then b; fi",
        "echo $(\\\n(a))",
        "{bad}",
        "if a; then {bad}; fi",
        "time -p ! a",
        "time if a",
        "cat < $x/tcp/h/9",
        "x=/dev/tcp/h/9",
        "echo $path['a[$(rm x)]']",
        "echo ${(e)y}",
        "$'rm\\0zzz' x",
        "a |& b",
        "a <(b)",
        "a >(b)",
        "echo $((1))",
        "((a))",
        "echo $[1]",
        "x=(a)",
        "ls @(a|b)",
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${x:=y}",
        "echo ${x:-$(y)}",
        "f() { a; }",
        "function f { a; }",
        "case x in y) a;; esac",
        "coproc a",
        "select x in a; do b; done",
        "for ((;;)); do a; done",
        "for x; do a; done",
        "repeat 3 a",
        "foreach x (a) b; end",
        "noglob a",
        "- a",
        "time ! a",
        "a }",
        "{ a }",
        "a 12>x",
        "a <1-2>x",
        "a <>x",
        "a >&x",
        "a &! b",
        "> x",
        "X=1 > y",
        "cat < /dev/tcp/h/80",
        "cat <<E\n$x[1]\nE",
        "cat <<E\n$(a)\nE",
        "cat <<E\n${x:-y}\nE",
        "cat <<E\n`a`\nE",
        "cat <<E\nx",
        "cat <<E",
        "a # (b)",
        "a # it's",
        "echo ~x",
        "echo \"$[1]\"",
        "echo \"a",
        "a 'b\\'",
        "a $\"b\"",
        "a\0b",
        "a\u{a0}b",
        "a\rb",
        "if a; then fi",
        "if a; then b",
        "a ) b",
        "a &&",
        "x+=1 a",
        "x[1]=2",
        "echo $#x",
        "X=1 if a",
        "a && && b",
        "echo `a",
        "cat <<A $(b\n)\nx\nA",
        "a\\",
    ] {
        assert!(read(text).is_err(), "{text:?} {:?}", read(text));
    }
    assert!(read(&format!("{}a{}", "( ".repeat(40), ")".repeat(40))).is_err());
    assert!(read("a;").is_ok());
}

#[test]
fn the_reason_says_where() {
    assert_eq!(read("echo a |&b").unwrap_err(), "shells read `|&` differently (character 8)");
}
