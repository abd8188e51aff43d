//! Tests of the commands found in lines.

use proptest::prelude::*;

use super::*;

/// Returns the last spelling of each command, and whether there may be more commands.
fn commands(text: &str) -> (Vec<String>, bool) {
    let line = split(text);
    let shown = |part: &CommandPart| part.spellings.last().map(|text| text.shown.clone()).unwrap_or_default();
    (line.parts.iter().filter(|part| !part.transparent).map(shown).collect(), line.opaque.is_some())
}

#[test]
fn every_command_of_a_line_is_found() {
    let table: &[(&str, &[&str])] = &[
        ("git push -f", &["git push -f"]),
        ("git   'pu'sh \"-f\"", &["git push -f"]),
        ("a; b && c || d & e | f", &["a", "b", "c", "d", "e", "f"]),
        ("a\nb", &["a", "b"]),
        ("echo $(git push) `id`", &["git push", "id", "echo $(…) $(…)"]),
        ("echo \"x $(git push) y\"", &["git push", "echo x $(…) y"]),
        ("(git push)", &["git push"]),
        ("{ git push; }", &["git push"]),
        ("! git push", &["git push"]),
        ("time git push", &["git push"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("for i in $(ls); do rm $i; done", &["ls", "rm $i"]),
        ("while a; do b; done", &["a", "b"]),
        ("[[ -f a ]] && b", &["b"]),
        ("X=$(git push)", &["git push", "X=$(…)"]),
        ("FOO=1 git push", &["git push"]),
        ("bash -c 'git push; id'", &["git push", "id"]),
        ("bash -lc \"git push\"", &["git push"]),
        ("sh -c 'sh -c \"git push\"'", &["git push"]),
        ("eval git 'push; id'", &["git push", "id"]),
        ("env git push", &["git push"]),
        ("env A=1 git push", &["env A=1 git push", "git push"]),
        ("timeout -k 5 10s nice -n 3 git push", &["git push"]),
        ("nohup git push > x &", &["git push"]),
        ("sudo git push", &["sudo git push"]),
        ("find . -name x -exec rm -f {} \\; -print", &["find . -name x -exec rm -f {} ; -print", "rm -f {}"]),
        ("cat <<E\n$x\nE", &["cat"]),
        ("[[ -f $(a) ]]", &["a"]),
        ("cat <<'E'\n$(git push)\nE", &["cat"]),
        ("a # git push", &["a"]),
        ("echo '$(git push)'", &["echo $(git push)"]),
        ("echo \"\\$(git push)\"", &["echo $(git push)"]),
        ("echo ä | grep ö", &["echo ä", "grep ö"]),
    ];
    for (text, expected) in table {
        assert_eq!(commands(text), (expected.iter().map(|&text| text.to_owned()).collect(), false), "{text}");
    }
}

/// Denied commands are found, but nothing is allowed.
#[test]
fn commands_of_one_dialect_are_found_and_never_allowed() {
    let table: &[(&str, &[&str])] = &[
        (r"g\it push", &["git push"]),
        ("$'git' $'pu\\x73h'", &["git push"]),
        ("cat <(git push)", &["git push", "cat <(…)"]),
        ("case $(a) in x) b;; *) c;; esac", &["a", "b", "c"]),
        ("f() { git push; }; f", &["git push", "f"]),
        ("coproc git push", &["git push"]),
    ];
    for (text, expected) in table {
        assert_eq!(commands(text), (expected.iter().map(|&text| text.to_owned()).collect(), true), "{text}");
    }
}

#[test]
fn what_is_not_understood_is_said() {
    for text in [
        "",
        "   ",
        "# nothing",
        "git push \"",
        "git push )",
        "if x",
        "echo `git push",
        "echo $(git push",
        "cat <<E\n$(git push)\nE",
        "echo $((x[$(git push)]))",
        "echo $[1]",
        "((x=1))",
        "X=($(git push))",
        "ls @(a|b)",
        "echo ${x:-$(git push)}",
        "echo ${x:-`git push`}",
        "echo ${x@P}",
        "[[ -v x[$(id)] ]]",
        "[[ $x -eq 1 ]]",
        "bash -c \"$x\"",
        "eval $x",
        "a\0b",
    ] {
        assert!(commands(text).1, "{text}");
    }
    assert!(commands(&"a;".repeat(MAX_COMMAND_BYTES)).1);
    assert!(commands(&"a;".repeat(MAX_PARTS + 1)).1);
    assert!(commands(&format!("{}a{}", "$(".repeat(40), ")".repeat(40))).1);
    assert!(commands(&format!("{}a{}", "( ".repeat(100), ")".repeat(100))).1);
}

/// Wrapped arguments are examined from many offsets. Time and memory must stay bounded.
#[test]
fn programs_that_start_programs_do_not_multiply() {
    let bounded = |line: ParsedLine| {
        assert!(line.opaque.is_some());
        assert!(line.parts.len() <= MAX_PARTS);
        let texts = line.parts.iter().flat_map(|part| part.spellings.iter().chain(&part.handed_on));
        assert!(texts.map(|text| text.shown.len()).sum::<usize>() <= MAX_SPELLED_BYTES);
    };
    let find = "find -exec ".repeat(40);
    for text in [
        find.clone(),
        "find -exec ".repeat(1000),
        "env ".repeat(4000),
        "sudo ".repeat(3000),
        format!("{find} bash -c '{find} bash -c \"{find}\"'"),
        "a >x;".repeat(MAX_PARTS / 2 + 1),
    ] {
        bounded(split(&text));
    }
    for program in ["xargs", "env", "find"] {
        let mut words = vec![String::new(); 1_000_000];
        words[0] = program.to_owned();
        bounded(of_words(&words));
    }
    for words in [["env", "env"], ["find", "-exec"], ["time", "-p"]] {
        let words: Vec<String> = words.iter().cycle().take(2800).map(|&word| word.to_owned()).collect();
        bounded(of_words(&words));
    }
}

#[test]
fn files_that_the_shell_opens_are_found() {
    type Opened = (bool, Option<&'static str>);
    let table: &[(&str, &[Opened])] = &[
        ("a > x", &[(true, Some("x"))]),
        ("a >> 'x y' 2>&1", &[(true, Some("x y"))]),
        ("a &> x", &[(true, Some("x"))]),
        ("a >| x", &[(true, Some("x"))]),
        ("a <> x", &[(true, Some("x"))]),
        ("a < x", &[(false, Some("x"))]),
        ("a > $X", &[(true, None)]),
        ("a > $(b)", &[(true, None)]),
        ("a > /dev/null 2>&1 <&- <<< x", &[]),
        ("{ a; } > x", &[(true, Some("x"))]),
        ("a >& x", &[(true, Some("x"))]),
    ];
    for (text, expected) in table {
        let found: Vec<_> =
            split(text).redirects.into_iter().map(|redirect| (redirect.writes, redirect.path)).collect();
        let expected: Vec<_> =
            expected.iter().map(|(writes, path)| (*writes, path.map(str::to_owned))).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_program_whose_name_is_not_known_is_reported() {
    for (text, unknown) in [("$X push", true), ("$(a) push", true), ("git $X", false), ("{git,x} push", true)]
    {
        let line = split(text);
        assert_eq!(line.parts.last().is_some_and(|part| part.unknown), unknown, "{text}");
    }
}

#[test]
fn words_of_a_program_are_no_line() {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let line = of_words(&words(&["bash", "-lc", "git push; id"]));
    assert_eq!(line.parts.len(), 3);
    let line = of_words(&words(&["echo", "$(git push)", ";", "id"]));
    assert_eq!(line.parts.len(), 1, "{line:?}");
    assert!(line.opaque.is_none());
}

/// Pieces of command lines for random combinations.
fn piece() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "a",
        " ",
        "|",
        "&&",
        ";",
        "\n",
        "$(",
        ")",
        "`",
        "(",
        "{ ",
        "}",
        "'",
        "\"",
        "\\",
        "$",
        "${",
        "[[ ",
        " ]]",
        "<<E\n",
        "\nE\n",
        ">",
        "<(",
        "if ",
        "then ",
        "fi",
        "case x in ",
        "esac",
        "for x ",
        "do ",
        "done",
        "! ",
        "coproc ",
        "@(",
        "é",
        "\u{1F600}",
        "=",
        "a=(",
        "#",
        "bash -c ",
        "eval ",
        "find -exec ",
        "env ",
        "sudo -u ",
        "timeout 5 ",
        "[",
        "~",
        "\0",
        "$'",
        "..",
        "*",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_is_too_hostile(pieces in proptest::collection::vec(piece(), 0..60)) {
        split(&pieces.concat());
    }

    #[test]
    fn any_characters_are_taken(text in "\\PC{0,60}") {
        split(&text);
    }

    /// In any context, a command is found or the line is opaque.
    #[test]
    fn a_command_does_not_hide(
        before in proptest::collection::vec(piece(), 0..8), after in proptest::collection::vec(piece(), 0..8),
    ) {
        let text = format!("{}\nmarker 1\n{}", before.concat(), after.concat());
        let line = split(&text);
        let seen = line.parts.iter().flat_map(|part| &part.spellings).any(|text| text.shown.contains("marker 1"));
        // In quotes, a here-document or a comment it is not a command.
        let quoted = before.iter().any(|piece| piece.contains(['\'', '"', '\\', '#', '<', '[', '$']));
        prop_assert!(seen || line.opaque.is_some() || quoted, "{text:?} {line:?}");
    }
}
